package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// ThrottleConfig sets up a throttle.
type ThrottleConfig struct {
	Keyed
	Interval  int64 // elapsed ns, or ms of event time
	EventTime bool
}

// Validate names the field that is wrong.
func (c ThrottleConfig) Validate() error {
	if c.Interval <= 0 {
		return fmt.Errorf("%w: throttle: interval is %d, want more than 0", ErrConfig, c.Interval)
	}
	return c.validate("throttle")
}

// Throttle passes at most one row per key and interval: the first, then the first that is Interval or more behind the last one
// passed. Time is event time where rows have it, else the journal's. A row older than the last one passed is dropped too.
type Throttle struct {
	memory
	c ThrottleConfig
}

// NewThrottle makes a throttle from a valid config.
func NewThrottle(c ThrottleConfig) *Throttle { return &Throttle{memory: memory{k: c.Keyed}, c: c} }

// timeBytes: time (FORMAT.md).
const timeBytes = 8

// Open implements pipeline.Operator.
func (t *Throttle) Open(tables pipeline.Tables) error {
	kind := "ops.throttle"
	if t.c.EventTime {
		kind = "ops.throttle.event"
	}
	return t.open(tables, "throttle", kind, 1)
}

// Restored implements pipeline.Operator.
func (t *Throttle) Restored() error { return checkSizes(t.table, timeBytes) }

// Process implements pipeline.Operator.
func (t *Throttle) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	now := out.Elapsed()
	if t.c.EventTime {
		if now = r.Time; now == pipeline.NoTime {
			out.Refuse(reasonNoTime, "throttle: the row has no event time", r)
			return
		}
	}
	if val, ok := t.at(r, out); ok {
		last := int64(binary.LittleEndian.Uint64(val))
		if now < last || uint64(now)-uint64(last) < uint64(t.c.Interval) {
			out.Counters.Dropped++
			return
		}
	}
	b := t.room(timeBytes, r, out)
	if b == nil {
		return
	}
	binary.LittleEndian.PutUint64(b, uint64(now))
	out.Forward(0, r)
}
