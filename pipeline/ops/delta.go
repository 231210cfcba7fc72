package ops

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// DeltaConfig sets up a delta.
type DeltaConfig struct {
	Keyed
	Carry
	Value *expr.Program
	Slot  int // own column
}

// Validate names the field that is wrong.
func (c DeltaConfig) Validate() error {
	if c.Value == nil {
		return fmt.Errorf("%w: delta: value is missing", ErrConfig)
	}
	return c.validate("delta")
}

// Delta adds to each row its value less the one of the row before it of the same key: null for the first. Integers are
// exact; a difference that does not fit refuses the row. A null value is no measurement: the row passes with a null and the one before
// stays.
type Delta struct {
	memory
	c    DeltaConfig
	pair [2]pipeline.Value
}

// NewDelta makes a delta from a valid config.
func NewDelta(c DeltaConfig) *Delta { return &Delta{memory: memory{k: c.Keyed}, c: c} }

// numberBytes: kind and number (FORMAT.md).
const numberBytes = 1 + 8

// Open implements pipeline.Operator.
func (d *Delta) Open(tables pipeline.Tables) error { return d.open(tables, "delta", "ops.delta", 1) }

// Restored implements pipeline.Operator.
func (d *Delta) Restored() error {
	return d.check(func(val []byte) error {
		_, err := parseNumber(val)
		return err
	})
}

// Process implements pipeline.Operator.
func (d *Delta) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := d.c.Value.Eval(r.Slots)
	if v.IsNull() {
		out.Emit(0, r.Time, d.c.row(r, out))
		return
	}
	if !v.IsNumber() {
		refuseValue(out, r, "delta value", v)
		return
	}
	var delta pipeline.Value
	if val, ok := d.at(r, out); ok {
		before, err := parseNumber(val)
		if err != nil {
			panic("BUG: " + err.Error())
		}
		d.pair = [2]pipeline.Value{v, before}
		if delta = difference.Eval(d.pair[:]); delta.Kind == pipeline.Error {
			out.Refuse(reasonOverflow, "delta: "+delta.Str, r)
			return
		}
	}
	b := d.room(numberBytes, r, out)
	if b == nil {
		return
	}
	putNumber(b, v)
	slots := d.c.row(r, out)
	slots[d.c.Slot] = delta
	out.Emit(0, r.Time, slots)
}

func putNumber(b []byte, v pipeline.Value) {
	b[0] = byte(v.Kind)
	binary.LittleEndian.PutUint64(b[1:], v.Num)
}

// parseNumber is the inverse of putNumber.
func parseNumber(b []byte) (v pipeline.Value, err error) {
	if len(b) != numberBytes {
		return v, fmt.Errorf("%w: number of %d bytes", ErrState, len(b))
	}
	v = pipeline.Value{Kind: pipeline.Kind(b[0]), Num: binary.LittleEndian.Uint64(b[1:])}
	if !v.IsNumber() {
		return v, fmt.Errorf("%w: a %s where a number is kept", ErrState, v.Kind)
	}
	return v, nil
}

// difference is slot 0 less slot 1 by the rules of expressions: integers exact, an overflow is an Error value.
var difference = func() *expr.Program {
	p, err := expr.Compile("a - b", pairEnv{})
	if err != nil {
		panic("BUG: " + err.Error())
	}
	return p
}()

type pairEnv struct{}

func (pairEnv) Field(p pipeline.Path) (slot int, kind pipeline.Kind, err error) {
	switch p.String() {
	case "a":
		return 0, pipeline.Null, nil
	case "b":
		return 1, pipeline.Null, nil
	}
	return 0, pipeline.Null, errors.New("there are a and b")
}
