package agent

import (
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/pipeline"
)

// Clock makes the stamps of journal frames. Elapsed goes on from the journal's last stamp and runs with the monotonic
// clock; a step of the wall clock never moves it. Safe for use by several goroutines.
type Clock struct {
	mu          sync.Mutex
	base        int64 // elapsed ns at start
	start       time.Time
	floor       int64 // wall ms below which the clock is surely wrong
	trustAlways bool
	synced      bool
	checkedAt   time.Time
}

// syncFlag is what systemd-timesyncd creates once it has set the clock.
const syncFlag = "/run/systemd/timesync/synchronized"

// trustCheckEvery bounds how often the kernel is asked whether the clock is synchronised.
const trustCheckEvery = 10 * time.Second

// NewClock continues behind the stamp of the journal's last frame. buildTime (Unix ms) is a floor for the wall clock; always
// skips the question whether the clock is synchronised (virtual machines, containers, tests).
func NewClock(last pipeline.Stamp, buildTime int64, always bool) *Clock {
	return &Clock{base: last.Elapsed, start: time.Now(), floor: max(buildTime, wallFloor(last)), trustAlways: always}
}

func wallFloor(last pipeline.Stamp) int64 {
	if last.Trusted {
		return last.Wall
	}
	return 0
}

// Raise moves the elapsed time on to at least ns: state that comes from another gateway counts from there. It never goes back.
func (c *Clock) Raise(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.base + int64(time.Since(c.start)); now < ns {
		c.base += ns - now
	}
}

// Elapsed is the journal's elapsed time now, in ns.
func (c *Clock) Elapsed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.base + int64(time.Since(c.start))
}

// Stamp is the present.
func (c *Clock) Stamp() pipeline.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	wall := now.UnixMilli()
	s := pipeline.Stamp{Elapsed: c.base + int64(now.Sub(c.start)), Wall: wall}
	if wall < c.floor {
		return s
	}
	if c.trustAlways {
		s.Trusted = true
		return s
	}
	if c.checkedAt.IsZero() || now.Sub(c.checkedAt) > trustCheckEvery {
		c.checkedAt, c.synced = now, clockSynced()
	}
	s.Trusted = c.synced
	return s
}

// clockSynced asks systemd-timesyncd's flag, then the kernel (set by chrony and ntpd).
func clockSynced() bool {
	if _, err := os.Stat(syncFlag); err == nil {
		return true
	}
	var t unix.Timex
	status, err := unix.Adjtimex(&t)
	return err == nil && status != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0
}
