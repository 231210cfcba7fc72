package systemd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A start reads the journal and syncs its tail: a service that fails at each start, and is started again at once for ever, would wear flash. systemd before 254 can only repeat at one pace,
// or give up.
const (
	// startsFree are repeated without a wait: kill -9, a power cut of the broker, a try of the operator.
	startsFree = 5
	// waitMost is the longest wait before a start.
	waitMost = time.Minute
	// lasted is how long a run is to last, from its start on, to count as well.
	lasted = time.Minute
)

// starts is what is remembered of the runs before: in the service's runtime directory, which is memory. A reboot forgets it.
type starts struct {
	inRow int           // that did not last
	last  time.Duration // when the last one began to work, since boot
}

// Pace waits when the runs before this one did not last: not at all the first times, then 1 s, 2 s, 4 s, up to a minute. It returns early with the error of ctx. Where there is no
// RuntimeDirectory= it does nothing.
func Pace(ctx context.Context, log *slog.Logger) error {
	file, ok := startsFile()
	if !ok {
		return nil
	}
	before := readStarts(file)
	now := sinceBoot()
	next, wait := before.next(now)
	if wait > 0 {
		log.Warn("the runs before ended soon; this start waits", "in_a_row", next.inRow, "wait", wait)
		Extend(wait + time.Minute)
		_ = notify(fmt.Sprintf("STATUS=waits %s: %d runs in a row did not last", wait, next.inRow)) // for people alone
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
		_ = notify("STATUS=")
	}
	next.last = now + wait
	if err := os.WriteFile(file, fmt.Appendf(nil, "%d %d\n", next.inRow, int64(next.last)), 0o600); err != nil {
		log.Warn("that this start was made cannot be noted", "error", err)
	}
	return nil
}

// Lasted forgets the starts: the run ended as it should.
func Lasted() {
	if file, ok := startsFile(); ok {
		_ = os.Remove(file) // what is left makes the next start wait at worst
	}
}

// next decides how long a start at now waits.
func (s starts) next(now time.Duration) (starts, time.Duration) {
	if s.last == 0 || now < s.last || now-s.last >= lasted {
		return starts{}, 0
	}
	n := starts{inRow: s.inRow + 1}
	if n.inRow <= startsFree {
		return n, 0
	}
	return n, min(waitMost, time.Second<<min(n.inRow-startsFree-1, 10))
}

func startsFile() (string, bool) {
	dir := os.Getenv("RUNTIME_DIRECTORY")
	return filepath.Join(dir, "starts"), dir != ""
}

// readStarts takes what cannot be read for nothing.
func readStarts(file string) (s starts) {
	b, err := os.ReadFile(file)
	if err != nil {
		return starts{}
	}
	if _, err := fmt.Sscan(string(b), &s.inRow, &s.last); err != nil || s.inRow < 0 {
		return starts{}
	}
	return s
}

// sinceBoot goes on while the machine sleeps, and is never set.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
