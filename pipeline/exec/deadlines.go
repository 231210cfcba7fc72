package exec

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// idleClock is a copy of a source's clock with its rules.
type idleClock struct {
	clock sourceClock
	idle  *plan.Idle
	time  *plan.Time
	keys  int   // that have a clock of their own
	due   int64 // when the first of them goes idle
}

// next is the elapsed time at which the idle rule next moves the watermark to eventTime, NoDeadline if never.
func (c *idleClock) next(eventTime int64) int64 {
	// The last key takes the source along: with hold nothing moves then.
	if c.keys > 1 || c.keys == 1 && c.idle.Advance {
		if eventTime == pipeline.NoDeadline || c.clock.watermark >= eventTime {
			return pipeline.NoDeadline
		}
		return c.due
	}
	return c.clock.nextIdle(c.idle, c.time, eventTime)
}

// deadlines collects what waits in the task. A fresh one per batch: readers keep the old.
func (t *task) deadlines() *deadlines {
	d := &deadlines{elapsed: pipeline.NoDeadline, eventTime: pipeline.NoDeadline}
	for _, u := range t.units {
		elapsed, eventTime := u.timers()
		d.elapsed, d.eventTime = min(d.elapsed, elapsed), min(d.eventTime, eventTime)
	}
	for _, s := range t.sources {
		if s.plan.Idle == nil || !s.plan.Idle.Advance && s.keys == nil {
			continue
		}
		c := idleClock{clock: s.clock, idle: s.plan.Idle, time: s.plan.Time}
		if heard, some := s.heard(); some {
			c.keys, c.due = s.keys.count(), heard+s.plan.Idle.AfterNs
		}
		d.clocks = append(d.clocks, c)
	}
	return d
}
