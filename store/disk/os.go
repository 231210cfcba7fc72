package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// OS is the real file system.
var OS FS = osFS{}

type osFS struct{}

// osFile is an open file. named: it had a name when it was opened, and the file system tells so.
type osFile struct {
	*os.File
	named bool
}

// open never waits: a pipe that somebody has put there would hold whoever opens it for ever, and nothing that is kept lies in a device.
func open(name string, flags int) (File, error) {
	f, st, err := openPlain(name, flags)
	if err != nil {
		return nil, err
	}
	return osFile{f, st.Nlink > 0}, nil
}

func openPlain(name string, flags int) (*os.File, *unix.Stat_t, error) {
	f, err := os.OpenFile(name, flags|unix.O_NONBLOCK|unix.O_NOCTTY, 0o640)
	if err != nil {
		if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) || errors.Is(err, unix.ELOOP) {
			err = &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}
		}
		return nil, nil, err
	}
	var st unix.Stat_t
	err = unix.Fstat(int(f.Fd()), &st)
	if err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		err = ErrNoFile
	}
	if err != nil {
		return nil, nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: err}, f.Close())
	}
	return f, &st, nil
}

// Named tells whether an open file still has a name somewhere. There are file systems, in user space, that never say so: only a file that had one and has none was removed.
func Named(f *os.File) bool {
	var st unix.Stat_t
	return unix.Fstat(int(f.Fd()), &st) == nil && st.Nlink > 0
}

func (osFS) Create(name string) (File, error) {
	return open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
}

func (osFS) Open(name string) (File, error) {
	return open(name, os.O_RDWR)
}

func (osFS) Rename(old, new string) error { return os.Rename(old, new) }
func (osFS) Remove(name string) error     { return os.Remove(name) }

// MkdirAll syncs the parent of each directory that it makes. Where the parent is there and yet nothing can be made in it (/proc, a directory that was removed), that is the error.
func (o osFS) MkdirAll(dir string) error {
	err := o.mkdir(dir)
	if parent := filepath.Dir(dir); errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err := o.MkdirAll(parent); err != nil {
			return err
		}
		err = o.mkdir(dir)
	}
	return err
}

func (o osFS) mkdir(dir string) error {
	err := os.Mkdir(dir, 0o750)
	switch {
	case err == nil:
		return o.SyncDir(filepath.Dir(dir))
	case errors.Is(err, fs.ErrExist):
		return nil
	}
	return err
}

func (osFS) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	slices.Sort(names)
	return names, nil
}

func (osFS) Free(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, fmt.Errorf("ask free space of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// Sync is fdatasync: it also writes the size, but not the time of modification. What was synced to a file that somebody has removed meanwhile is nowhere once it is closed: that is ErrRemoved.
func (f osFile) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err == nil && f.named && !Named(f.File):
			return ErrRemoved // the caller knows by which name
		}
		return err
	}
}

func (f osFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
