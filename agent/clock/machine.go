package clock

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Reading is one look at a machine's clocks, all in ns: Monotonic stands while the machine sleeps, Boot does not, Wall is since 1970.
type Reading struct{ Monotonic, Boot, Wall int64 }

// Machine is where the time comes from.
type Machine interface {
	Read() Reading
	// Synced says whether a time service says that the wall clock is right.
	Synced() bool
}

// This is the machine that the program runs on.
var This Machine = this{}

type this struct{}

// started keeps a monotonic reading that later ones are taken against.
var started = time.Now()

// readTogether is how far apart the clocks may be read, and readTries how often that is tried: a process that is preempted in between would see a machine that slept.
const (
	readTogether = 50 * time.Millisecond
	readTries    = 5
)

// Read takes wall and monotonic time in one call, and boot time before and after.
func (this) Read() Reading {
	for try := 1; ; try++ {
		before := bootTime()
		now := time.Now()
		after := bootTime()
		r := Reading{Monotonic: int64(now.Sub(started)), Boot: before, Wall: now.UnixNano()}
		if before == 0 { // a kernel without it: sleep looks like a step
			r.Boot = r.Monotonic
		}
		if after-before <= int64(readTogether) || try == readTries {
			return r
		}
	}
}

func bootTime() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}

// syncFlag is what systemd-timesyncd creates once it has set the clock.
const syncFlag = "/run/systemd/timesync/synchronized"

// Synced asks systemd-timesyncd's flag, then the kernel (set by chrony and ntpd).
func (this) Synced() bool {
	if _, err := os.Stat(syncFlag); err == nil {
		return true
	}
	var t unix.Timex
	status, err := unix.Adjtimex(&t)
	return err == nil && status != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
