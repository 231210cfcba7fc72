package rig

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ErrNoMount says that this test may not mount a file system.
var ErrNoMount = errors.New("mounting a file system needs root")

// SmallDisk mounts a tmpfs of so many bytes on a directory and fills it: what a sink writes there meets a full disk. drain makes room; done unmounts.
func SmallDisk(dir string, bytes int) (drain func() error, done func(), err error) {
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNoMount, err)
	}
	done = func() { _ = unix.Unmount(dir, unix.MNT_DETACH) } // nothing else holds it
	if err := FillDisk(dir); err != nil {
		done()
		return nil, nil, err
	}
	return func() error { return os.Remove(filepath.Join(dir, ballast)) }, done, nil
}

// ballast is the file that FillDisk writes and drain removes.
const ballast = "ballast"

// FillDisk takes all room of a small disk again, behind a drain.
func FillDisk(dir string) error {
	f, err := os.Create(filepath.Join(dir, ballast))
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if f != nil {
		f.Close()
	}
	if !errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("fill the disk: %w", err)
	}
	return nil
}
