package ops

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// LagMax is the furthest that a lag looks back: each row writes so many values of its key.
const LagMax = 1000

// LagConfig sets up a lag.
type LagConfig struct {
	Keyed
	Carry
	Value *expr.Program
	N     int // rows back
	Slot  int // own column
}

// Validate names the field that is wrong.
func (c LagConfig) Validate() error {
	switch {
	case c.Value == nil:
		return fmt.Errorf("%w: lag: value is missing", ErrConfig)
	case c.N < 1 || c.N > LagMax:
		return fmt.Errorf("%w: lag: n is %d, want 1 to %d", ErrConfig, c.N, LagMax)
	}
	return c.validate("lag")
}

// Lag adds to each row the value that the row N rows before it had, of the same key; null when there was none. A null value
// is kept like any other: rows are counted, not measurements.
type Lag struct {
	memory
	c     LagConfig
	entry []byte
}

// NewLag makes a lag from a valid config.
func NewLag(c LagConfig) *Lag { return &Lag{memory: memory{k: c.Keyed}, c: c} }

// Open implements pipeline.Operator.
func (l *Lag) Open(tables pipeline.Tables) error { return l.open(tables, "lag", "ops.lag", 1) }

// Restored implements pipeline.Operator.
func (l *Lag) Restored() error { return l.check(checkLag) }

// Process implements pipeline.Operator.
func (l *Lag) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := l.c.Value.Eval(r.Slots)
	if v.Kind == pipeline.Error {
		refuseValue(out, r, "lag value", v)
		return
	}
	val, _ := l.at(r, out)
	var before pipeline.Value
	l.entry, before = nextLag(l.entry[:0], val, v, l.c.N)
	if !l.put(l.entry, r, out) {
		return
	}
	slots := l.c.row(r, out)
	slots[l.c.Slot] = before
	out.Emit(0, r.Time, slots)
}
