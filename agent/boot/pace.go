package boot

import (
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// The pace of starts that follow one another. A program that ends at once is started by systemd each RestartSec for ever (RestartSteps= is unknown to systemd 252), and would wear flash and processor. weir waits itself, once it
// comes so far; this is for programs that do not.
const (
	gapMax  = 20 * time.Second // between the end of the helper and its next run: within it a start follows the one before
	freeMax = 10               // starts that follow one another without a wait: a program on trial has few, and is to be rid of soon
	// WaitMax is the longest wait.
	WaitMax = time.Minute
)

// starts is what is noted in memory of the starts before.
type starts struct {
	Count   int   `json:"count"`    // that followed one another
	EndedNs int64 `json:"ended_ns"` // CLOCK_BOOTTIME when the helper was done
}

// pace counts this start and waits if it follows too many others. It gives how many have followed one another.
func (p *Places) pace() (count int) {
	var s starts
	if _, err := p.readJSON(filepath.Join(p.Run, pacedFile), &s); err != nil {
		s = starts{}
	}
	now := sinceBoot()
	if s.EndedNs == 0 || now < s.EndedNs || now-s.EndedNs > int64(gapMax) {
		return 0
	}
	count = s.Count + 1
	if wait := waitOf(count); wait > 0 && p.Wait != nil {
		p.say(warning, "%d starts have followed one another; this one waits %v", count, wait)
		p.Wait(wait)
	}
	return count
}

func waitOf(count int) time.Duration {
	if count < freeMax {
		return 0
	}
	return min(time.Second<<min(count-freeMax, 6), WaitMax)
}

func (p *Places) paced(count int) {
	_ = p.note(pacedFile, starts{Count: count, EndedNs: sinceBoot()}) // in memory; without it no start waits
}

// sinceBoot goes on while the machine sleeps, and knows no steps of the clock.
func sinceBoot() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0
	}
	return t.Nano()
}
