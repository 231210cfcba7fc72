// Package flash tells what is written to the storage of state_dir, how long it will endure that, and what to stretch so that it lasts.
//
// The meter (meter.go) adds up what the kernel counts for the disk (/sys/block/NAME/stat, units of 512 bytes) and what this process wrote
// (/proc/self/io). It measures days of 24 hours of running time: no step of the wall clock moves them, and a stopped agent uses up no day. The record
// (record.go, FORMAT.md) carries the day over a restart. Governor (governor.go) is a pure decision: facts and limits in, linger and checkpoint
// interval out. Examine (examine.go) looks at the file system below state_dir and says what does not fit a log that has to survive a power cut.
//
// Only Meter.Keep writes, one small file, durable on return. Nothing here has a goroutine: the agent's keeper owns a Meter.
package flash

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// System is where the kernel tells of devices. The zero value is the machine; tests give trees of their own.
type System struct {
	Sys, Proc string                                           // "": /sys and /proc
	Rdev      func(path string) (major, minor uint32, ok bool) // number of a device file; nil: stat
}

func (s System) sys(elem ...string) string { return under(s.Sys, "/sys", elem) }

func (s System) proc(elem ...string) string { return under(s.Proc, "/proc", elem) }

func under(root, usual string, elem []string) string {
	if root == "" {
		root = usual
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

func (s System) rdev(path string) (major, minor uint32, ok bool) {
	if s.Rdev != nil {
		return s.Rdev(path)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return 0, 0, false
	}
	return unix.Major(uint64(st.Rdev)), unix.Minor(uint64(st.Rdev)), true
}

// line is the content of a file of one line, "" when it cannot be read.
func line(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
