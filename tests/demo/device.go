package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// device is the block device below a directory. Its counter has all that any program writes to it, file system metadata included;
// what /proc/PID/io says of the agent alone is no help: with large folios the kernel counts up to a hundred times too much.
type device struct {
	name  string
	stat  string
	begin uint64
}

// sectorBytes is the unit of the kernel's block statistics, whatever the device's own sector is.
const sectorBytes = 512

// deviceOf finds the device; a directory that lies on none (tmpfs, overlay) gives one without a name that counts nothing.
func deviceOf(dir string) *device {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return &device{}
	}
	path := fmt.Sprintf("/sys/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return &device{}
	}
	d := &device{name: filepath.Base(real), stat: filepath.Join(path, "stat")}
	d.begin = d.counter()
	return d
}

// written is how much the device was given since deviceOf.
func (d *device) written() uint64 { return d.counter() - d.begin }

func (d *device) counter() uint64 {
	b, err := os.ReadFile(d.stat)
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 7 {
		return 0
	}
	sectors, err := strconv.ParseUint(fields[6], 10, 64)
	if err != nil {
		return 0
	}
	return sectors * sectorBytes
}

func (d *device) String() string {
	if d.name == "" {
		return "(the directory lies on no block device)"
	}
	return d.name + ", by all programs on this machine"
}
