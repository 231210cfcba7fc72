package main

import (
	"context"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// shedPoll is how often it is asked whether the agent is ready.
	shedPoll = time.Second
	// shedAfter lets what follows a start (a first checkpoint, a connection) pass first.
	shedAfter = 15 * time.Second
)

// shedStart gives back, once, what only the start needed: heap of the restore, and pages of the program that are mapped because its code ran once. A gateway that idles then holds what
// idling needs; what is used again comes from the page cache, or from flash if that was needed elsewhere.
func shedStart(ctx context.Context, ready func() error) {
	wait := func(d time.Duration) bool {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(d):
			return true
		}
	}
	for ready() != nil {
		if !wait(shedPoll) {
			return
		}
	}
	if !wait(shedAfter) {
		return
	}
	debug.FreeOSMemory()
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil { // not every kernel has it
		return
	}
	for _, m := range untouched(string(smaps), program) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.start, m.size, unix.MADV_DONTNEED) // a hint: what is refused stays mapped
	}
}

// mapping is a part of the address space.
type mapping struct{ start, size uintptr }

// untouched picks the parts of a program's file that nobody can have written to: mapped without the right to write, and with no page of their own. Only these may be dropped: they come
// back from the file as they were.
func untouched(smaps, program string) (list []mapping) {
	var m mapping
	ours := false
	for l := range strings.Lines(smaps) {
		f := strings.Fields(l)
		switch {
		case len(f) >= 6 && strings.Contains(f[0], "-"):
			from, to, _ := strings.Cut(f[0], "-")
			start, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
			end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
			ours = err1 == nil && err2 == nil && end > start && !strings.Contains(f[1], "w") && strings.HasPrefix(f[1], "r") && strings.HasSuffix(f[1], "p") && strings.Join(f[5:], " ") == program
			m = mapping{uintptr(start), uintptr(end - start)}
		case len(f) >= 1 && strings.Contains(f[0], "-"):
			ours = false
		case ours && len(f) >= 2 && f[0] == "Anonymous:":
			if f[1] == "0" {
				list = append(list, m)
			}
			ours = false
		}
	}
	return list
}
