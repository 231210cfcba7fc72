package ops

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// ChangedConfig sets up a changed.
type ChangedConfig struct {
	Keyed
	Value *expr.Program
}

// Validate names the field that is wrong.
func (c ChangedConfig) Validate() error {
	if c.Value == nil {
		return fmt.Errorf("%w: changed: value is missing", ErrConfig)
	}
	return c.validate("changed")
}

// Changed passes a row when its value differs from that of the last row passed of its key; the first passes. Values are
// compared as keys are: 1 and 1.0 are equal. A null value is no measurement: its row is dropped and counted. The TTL counts from
// the row that passed last: behind it the next one passes whatever it is.
type Changed struct {
	memory
	value *expr.Program
	now   []byte
}

// NewChanged makes a changed from a valid config.
func NewChanged(c ChangedConfig) *Changed {
	return &Changed{memory: memory{k: c.Keyed}, value: c.Value}
}

// Open implements pipeline.Operator.
func (c *Changed) Open(tables pipeline.Tables) error {
	return c.open(tables, "changed", "ops.changed", 1)
}

// Restored implements pipeline.Operator.
func (c *Changed) Restored() error {
	out := pipeline.NewOut("", 0)
	return c.check(func(val []byte) error {
		if _, rest, err := out.KeyValue(val); err != nil || len(rest) > 0 {
			return fmt.Errorf("%w: changed entry of %d bytes", ErrState, len(val))
		}
		return nil
	})
}

// Process implements pipeline.Operator.
func (c *Changed) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := c.value.Eval(r.Slots)
	if v.IsNull() {
		out.Counters.Dropped++
		return
	}
	var err error
	if c.now, err = pipeline.AppendKey(c.now[:0], v); err != nil {
		refuseValue(out, r, "changed value", v)
		return
	}
	if last, ok := c.at(r, out); ok && string(last) == string(c.now) {
		out.Counters.Dropped++
		return
	}
	if c.put(c.now, r, out) {
		out.Forward(0, r)
	}
}
