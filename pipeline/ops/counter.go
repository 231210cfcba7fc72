package ops

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/counter"
	"github.com/weirstream/weir/pipeline/expr"
)

// CounterConfig sets up a counter.
type CounterConfig struct {
	Keyed
	Carry
	Value *expr.Program
	// WrapLast is the largest value before a counter of fixed width begins again at 0: 65535 for 16 bits; 0: it does not wrap.
	WrapLast uint64
	// StepMax is the largest increase over the wrap that is taken for one; a larger one is a reset.
	StepMax      uint64
	ResetUnknown bool // a reset says nothing about the increase; else the counter began again at 0
	EventTime    bool // rows have event time: a row older than the one before it is late
	RateNs       int64
	IncreaseSlot int // own columns; RateSlot -1: no rate
	RateSlot     int
}

// Validate names the field that is wrong.
func (c CounterConfig) Validate() error {
	switch {
	case c.Value == nil:
		return fmt.Errorf("%w: counter: value is missing", ErrConfig)
	case c.WrapLast > 0 && (c.StepMax == 0 || c.StepMax > c.WrapLast):
		return fmt.Errorf("%w: counter: max_step is %d, want 1 to %d", ErrConfig, c.StepMax, c.WrapLast)
	case c.RateSlot >= 0 && c.RateNs <= 0:
		return fmt.Errorf("%w: counter: rate is per %d ns, want more than 0", ErrConfig, c.RateNs)
	}
	return c.validate("counter")
}

// Counter adds to each row by how much a counter rose since the row before it of the same key, and how fast. A value at or above
// the one before is a rise. One below it is a wrap when the counter has a width and the increase over the wrap is at most
// StepMax; else the counter was reset, and rose from 0. Null for the first row, and for a null value, which is no measurement. With event time, a row
// older than the one before it is late and changes nothing: out of order it would read as a reset.
type Counter struct {
	memory
	c CounterConfig
}

// NewCounter makes a counter from a valid config.
func NewCounter(c CounterConfig) *Counter { return &Counter{memory: memory{k: c.Keyed}, c: c} }

// Ports of a counter.
const (
	counterMain = 0
	counterLate = 1
)

// counterBytes: number, time (FORMAT.md).
const counterBytes = numberBytes + 8

// Open implements pipeline.Operator.
func (c *Counter) Open(tables pipeline.Tables) error {
	kind := "ops.counter"
	if c.c.EventTime {
		kind = "ops.counter.event"
	}
	return c.open(tables, "counter", kind, 1)
}

// Restored implements pipeline.Operator.
func (c *Counter) Restored() error {
	return c.check(func(val []byte) error {
		_, _, err := parseCounter(val)
		return err
	})
}

func putCounter(b []byte, v pipeline.Value, at int64) {
	putNumber(b[:numberBytes], v)
	binary.LittleEndian.PutUint64(b[numberBytes:], uint64(at))
}

// parseCounter is the inverse of putCounter.
func parseCounter(b []byte) (v pipeline.Value, at int64, err error) {
	if len(b) != counterBytes {
		return v, 0, fmt.Errorf("%w: counter entry of %d bytes", ErrState, len(b))
	}
	v, err = parseNumber(b[:numberBytes])
	return v, int64(binary.LittleEndian.Uint64(b[numberBytes:])), err
}

// Process implements pipeline.Operator.
func (c *Counter) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := c.c.Value.Eval(r.Slots)
	if v.IsNull() {
		out.Emit(counterMain, r.Time, c.c.row(r, out))
		return
	}
	if wrong := c.wrong(v); wrong != "" {
		out.Refuse(reasonExpression, "counter value: "+wrong, r)
		return
	}
	now := out.Elapsed()
	if c.c.EventTime {
		if now = r.Time; now == pipeline.NoTime {
			out.Refuse(reasonNoTime, "counter: the row has no event time", r)
			return
		}
	}
	var increase, rate pipeline.Value
	if val, ok := c.at(r, out); ok {
		before, at, err := parseCounter(val)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		if c.c.EventTime && now < at {
			out.Counters.Late++
			out.Forward(counterLate, r)
			return
		}
		increase = c.increase(before, v)
		if c.c.RateSlot >= 0 {
			rate = c.rate(increase, now-at)
		}
	}
	b := c.room(counterBytes, r, out)
	if b == nil {
		return
	}
	putCounter(b, v, now)
	slots := c.c.row(r, out)
	slots[c.c.IncreaseSlot] = increase
	if c.c.RateSlot >= 0 {
		slots[c.c.RateSlot] = rate
	}
	out.Emit(counterMain, r.Time, slots)
}

// wrong tells why a value cannot be a counter's.
func (c *Counter) wrong(v pipeline.Value) string {
	switch {
	case v.Kind == pipeline.Error:
		return v.Str
	case !v.IsNumber():
		return "found a " + v.Kind.String()
	case !counter.Valid(v):
		return "a counter is never negative"
	case c.c.WrapLast == 0:
		return ""
	case v.Kind == pipeline.Float:
		return "a counter that wraps is a whole number"
	case v.Uint() > c.c.WrapLast:
		return "it is above the largest value before the wrap"
	}
	return ""
}

// increase follows the rule of all counters. Neither value is negative.
func (c *Counter) increase(before, now pipeline.Value) pipeline.Value {
	step, what := counter.Rule{Last: c.c.WrapLast, StepMax: c.c.StepMax}.Step(before, now)
	if what == counter.Reset && c.c.ResetUnknown {
		return pipeline.Value{}
	}
	return step
}

// rate is an increase within some time, per RateNs; null when no time went by.
func (c *Counter) rate(increase pipeline.Value, took int64) pipeline.Value {
	f, ok := increase.AsFloat()
	if !ok || took <= 0 {
		return pipeline.Value{}
	}
	unit := float64(c.c.RateNs)
	if c.c.EventTime {
		unit /= 1e6
	}
	if v := pipeline.FloatValue(float64(f*unit) / float64(took)); v.Kind == pipeline.Float {
		return v
	}
	if v := pipeline.FloatValue(f / float64(took) * unit); v.Kind == pipeline.Float {
		return v
	}
	return pipeline.Value{}
}
