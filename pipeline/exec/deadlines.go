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
}

// deadlines collects what waits in the task. A fresh one per batch: readers keep the old.
func (t *task) deadlines() *deadlines {
	d := &deadlines{elapsed: pipeline.NoDeadline, eventTime: pipeline.NoDeadline}
	for _, u := range t.units {
		elapsed, eventTime := u.timers()
		d.elapsed, d.eventTime = min(d.elapsed, elapsed), min(d.eventTime, eventTime)
	}
	for _, s := range t.sources {
		if s.plan.Idle != nil && s.plan.Idle.Advance {
			d.clocks = append(d.clocks, idleClock{clock: s.clock, idle: s.plan.Idle, time: s.plan.Time})
		}
	}
	return d
}
