package uplink

import (
	"context"
	"time"
)

// Link is what the sinks of an agent share on their way upstream: its bandwidth, and the hours at which it may be used. A nil Link limits
// nothing. It may be used by many senders at once; nothing of it changes but what the Limiter counts.
type Link struct {
	Name    string
	Limiter *Limiter // nil: no limit
	Windows Windows
	// AnyTime is the least priority that is sent outside of the windows too; priorities and above: none.
	AnyTime Priority
	// Clock gives the wall clock in Unix ms, and whether it may be relied on. While it may not, the windows count as closed: what the link
	// costs cannot be taken back, and the results wait. Required with Windows.
	Clock func() (wallMs int64, trusted bool)
}

// NoPriority is above every priority.
const NoPriority = Priority(priorities)

// lookEvery bounds how long a sender that waits for a window believes the clock, which may be set meanwhile.
const lookEvery = time.Minute

// closed tells whether a stream of a priority must wait, for how long at least, and why.
func (l *Link) closed(p Priority) (wait time.Duration, why string) {
	if l == nil || len(l.Windows.List) == 0 || p >= l.AnyTime {
		return 0, ""
	}
	ms, trusted := l.Clock()
	if !trusted {
		return lookEvery, "waits for a clock that can be relied on: link " + l.Name + " has windows"
	}
	now := time.UnixMilli(ms)
	if l.Windows.Open(now) {
		return 0, ""
	}
	next := l.Windows.Next(now)
	return min(max(next.Sub(now), time.Millisecond), lookEvery), "waits for the window of link " + l.Name + " at " + next.Format("15:04 MST")
}

// await returns when a stream of a priority may be sent. told gets the reason while it waits, and "" at the end.
func (l *Link) await(ctx context.Context, p Priority, told func(why string)) error {
	for {
		wait, why := l.closed(p)
		told(why)
		if wait == 0 {
			return nil
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			told("")
			return ctx.Err()
		}
	}
}

// spend returns when n bytes may be sent.
func (l *Link) spend(ctx context.Context, n int, p Priority) error {
	if l == nil {
		return nil
	}
	return l.Limiter.Wait(ctx, n, p)
}
