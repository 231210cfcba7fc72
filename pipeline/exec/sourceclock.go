package exec

import (
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// sourceClock is the event time of a source: pure bookkeeping, see DESIGN.md "Idle sources".
type sourceClock struct {
	started     bool
	idle        bool
	timeMax     int64 // ms, of accepted records
	lastElapsed int64 // ns, stamp of the last record (or of the first tick when there was none yet)
	watermark   int64
	moved       int64 // ns, stamp at which any of it last changed; the checkpoint was made then or later
}

// tick is the idle rule: pure.
func (c *sourceClock) tick(idle *plan.Idle, time *plan.Time, elapsed int64) (pipeline.Mark, bool) {
	if idle == nil || !idle.Advance || elapsed-c.lastElapsed < idle.AfterNs {
		return pipeline.Mark{}, false
	}
	before, was := c.watermark, c.idle
	c.idle = true
	if c.started && time != nil {
		c.watermark = max(c.watermark, c.timeMax-time.OutOfOrdernessMs+(elapsed-c.lastElapsed)/1e6)
	}
	moved := c.watermark != before || !was
	if moved {
		c.moved = elapsed
	}
	return pipeline.Mark{Phase: pipeline.Idle, Idle: true, Watermark: c.watermark}, moved
}

// record moves the watermark behind an accepted record; it tells whether a mark is to say so. With keys, which have the record already, their
// front makes the watermark, else the largest time.
func (c *sourceClock) record(time *plan.Time, elapsed, at int64, keys *keyClocks) (moved bool) {
	before, was := c.watermark, c.idle
	c.idle, c.lastElapsed, c.moved = false, elapsed, elapsed
	if time != nil && at != pipeline.NoTime {
		if !c.started || at > c.timeMax {
			c.timeMax = at
		}
		c.started = true
		front := c.timeMax
		if keys != nil {
			front = keys.front()
		}
		c.watermark = max(c.watermark, front-time.OutOfOrdernessMs)
	}
	return c.watermark != before || was
}

// mark is what holds behind the record at pos.
func (c *sourceClock) mark(pos pipeline.Position) pipeline.Mark {
	return pipeline.Mark{Pos: pos, Phase: pipeline.After, Watermark: c.watermark}
}

// nextIdle is the elapsed time at which the idle rule next moves the watermark to eventTime, NoDeadline if never.
func (c *sourceClock) nextIdle(idle *plan.Idle, time *plan.Time, eventTime int64) int64 {
	if idle == nil || !idle.Advance || time == nil || eventTime == pipeline.NoDeadline || c.lastElapsed < 0 {
		return pipeline.NoDeadline
	}
	if c.idle && (!c.started || c.watermark >= eventTime) {
		return pipeline.NoDeadline // what waits, waits for another source
	}
	due := c.lastElapsed + idle.AfterNs
	if c.started && c.watermark < eventTime && eventTime < int64(math.MaxInt64)/2 {
		wait := eventTime - (c.timeMax - time.OutOfOrdernessMs)
		if wait < int64(math.MaxInt64)/2_000_000 {
			due = max(due, c.lastElapsed+wait*1e6)
		}
	}
	return due
}
