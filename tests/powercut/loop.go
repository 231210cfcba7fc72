//go:build !arm && !386

package powercut

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"golang.org/x/sys/unix"
)

// loopTries bounds the race for a free loop device with others on this machine.
const loopTries = 50

// attach makes a block device of a file. It is gone with its last user: a mount, or the file that is returned.
func attach(file string) (device *os.File, err error) {
	fd, err := unix.Open(file, unix.O_RDWR|unix.O_CLOEXEC, 0) // os.Open would poll it, which FUSE in the same process cannot answer
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", file, err)
	}
	defer unix.Close(fd)
	control, err := unix.Open("/dev/loop-control", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/loop-control: %w", err)
	}
	defer unix.Close(control)
	for range loopTries {
		n, err := unix.IoctlRetInt(control, unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, fmt.Errorf("find a free loop device: %w", err)
		}
		device, err := os.OpenFile(loopNode(n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		config := unix.LoopConfig{Fd: uint32(fd), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		copy(config.Info.File_name[:], file)
		err = unix.IoctlLoopConfigure(int(device.Fd()), &config)
		if err == nil {
			return device, nil
		}
		device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, fmt.Errorf("configure loop device %d: %w", n, err)
		}
	}
	return nil, errors.New("no loop device is free")
}

// loopNode is the name of a loop device; where the system makes none, as in containers, it is made.
func loopNode(n int) string {
	const major = 7
	name := fmt.Sprintf("/dev/loop%d", n)
	if _, err := os.Stat(name); errors.Is(err, os.ErrNotExist) {
		_ = unix.Mknod(name, unix.S_IFBLK|0o600, int(unix.Mkdev(major, uint32(n)))) // the open tells
	}
	return name
}

// dirPrefix is how every directory of a run is called; the number of its process comes behind.
const dirPrefix = "weir-powercut-"

var backing = regexp.MustCompile(dirPrefix + `(\d+)-`)

// sweep detaches loop devices whose file is of a run that is dead, and removes what such runs left in base. Others' are not touched.
func sweep(base string) {
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file") // the pattern is well formed
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil || !ofDeadRun(string(b)) {
			continue
		}
		name := "/dev/" + filepath.Base(filepath.Dir(filepath.Dir(file)))
		if fd, err := unix.Open(name, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
			_ = unix.IoctlSetInt(fd, unix.LOOP_CLR_FD, 0) // another user of it keeps it
			unix.Close(fd)
		}
	}
	dirs, _ := filepath.Glob(filepath.Join(base, dirPrefix+"*"))
	for _, dir := range dirs {
		if ofDeadRun(dir) {
			_ = os.RemoveAll(dir) // what it cannot remove the next one tries again
		}
	}
}

func ofDeadRun(path string) bool {
	m := backing.FindStringSubmatch(path)
	if m == nil {
		return false
	}
	pid, err := strconv.Atoi(m[1])
	return err == nil && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
