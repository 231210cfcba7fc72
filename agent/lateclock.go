package agent

import (
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/pipeline"
)

// lateClock stands in for the clock while the journal is being opened: the clock goes on from the journal's last stamp, which is known
// only then. Recovery itself writes frames with the stamps that they had.
type lateClock struct{ clock atomic.Pointer[clock.Clock] }

func (l *lateClock) set(c *clock.Clock) { l.clock.Store(c) }

func (l *lateClock) stamp() pipeline.Stamp {
	if c := l.clock.Load(); c != nil {
		return c.Stamp()
	}
	return pipeline.Stamp{Wall: time.Now().UnixMilli()}
}

// wall is what certificates are judged by: before the journal is open, the time is the build's or later.
func (l *lateClock) wall() (at time.Time, late bool) {
	if c := l.clock.Load(); c != nil {
		return c.Wall()
	}
	return time.UnixMilli(max(time.Now().UnixMilli(), buildTimeMs())), true
}
