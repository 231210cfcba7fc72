package join

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// The inputs of a join.
const (
	Left  = 0
	Right = 1
)

// LatePort is where interval and window joins put rows that came too late: with the columns of the joined rows, those of the other
// input null.
const LatePort = 1

// Type says which rows without a partner come out.
type Type uint8

// The types of joins. Those that do come out have null in the columns of the other input.
const (
	Inner     Type = iota // none
	LeftOuter             // those of the left input
	Full                  // those of either input
)

var typeNames = [...]string{"inner", "left", "full"}

func (t Type) String() string {
	if int(t) < len(typeNames) {
		return typeNames[t]
	}
	return fmt.Sprintf("type(%d)", uint8(t))
}

// ParseType is the inverse of String.
func ParseType(name string) (Type, error) {
	for i, n := range typeNames {
		if n == name {
			return Type(i), nil
		}
	}
	return Inner, fmt.Errorf("%w: type is %q, want inner, left or full", ErrConfig, name)
}

// keeps tells whether a row of that input comes out though it found no partner.
func (t Type) keeps(side int) bool { return t == Full || t == LeftOuter && side == Left }

// Side is what a join takes of the rows of one input.
type Side struct {
	Key  []int // slots of the key
	Keep []int // slots that joined rows need
}

// From says where a field of a joined row comes from.
type From uint8

// The origins of a field.
const (
	FromLeft   From = iota // Keep[Index] of the left row
	FromRight              // Keep[Index] of the right row
	FromEither             // Keep[Index] of the left row when there is one, else Keep[Other] of the right row: a key field of one name
	FromStart              // start of the window, ms
	FromEnd                // end of the window, ms
)

// Field is one value of a joined row.
type Field struct {
	From         From
	Index, Other int
}

// Column computes one slot of a row that goes out from the fields.
type Column struct {
	Slot int
	Prog *expr.Program
}

// Output makes the rows of a join.
type Output struct {
	Fields  []Field
	Columns []Column // over the fields; nil: the fields go out as they are
	Width   int      // slots of a row that goes out
}

func (o Output) validate(sides [2]Side) error {
	for i, f := range o.Fields {
		if f.From == FromLeft && f.Index >= len(sides[Left].Keep) || f.From == FromRight && f.Index >= len(sides[Right].Keep) ||
			f.From == FromEither && (f.Index >= len(sides[Left].Keep) || f.Other >= len(sides[Right].Keep)) || f.From > FromEnd {
			return fmt.Errorf("%w: field %d of the output comes from nowhere", ErrConfig, i)
		}
	}
	if o.Columns == nil && o.Width != len(o.Fields) {
		return fmt.Errorf("%w: rows of width %d with %d fields", ErrConfig, o.Width, len(o.Fields))
	}
	if len(sides[Left].Key) == 0 || len(sides[Left].Key) != len(sides[Right].Key) {
		return fmt.Errorf("%w: on has %d and %d fields, want as many on both sides, and one at least", ErrConfig, len(sides[Left].Key), len(sides[Right].Key))
	}
	return nil
}

// pair is a joined row to be. A side without a row is nil; start and end are those of the window, where there is one.
type pair struct {
	sides      [2][]pipeline.Value
	start, end int64
}

// emitter makes rows from pairs.
type emitter struct {
	Output
	fields []pipeline.Value
}

// emit puts a pair out. A row with a column that fails is refused whole.
func (e *emitter) emit(port int, time int64, p pair, out *pipeline.Out) {
	if e.Columns == nil {
		slots := out.Slots(e.Width)
		e.fill(slots, p)
		out.Emit(port, time, slots)
		return
	}
	if e.fields == nil {
		e.fields = make([]pipeline.Value, len(e.Fields))
	}
	e.fill(e.fields, p)
	slots := out.Slots(e.Width)
	for _, c := range e.Columns {
		v := c.Prog.Eval(e.fields)
		if v.Kind == pipeline.Error {
			fields := out.Slots(len(e.fields))
			copy(fields, e.fields)
			out.Refuse(reasonExpression, "join: "+v.Str, &pipeline.Row{At: out.At, Time: time, Slots: fields})
			return
		}
		slots[c.Slot] = v
	}
	out.Emit(port, time, slots)
}

func (e *emitter) fill(slots []pipeline.Value, p pair) {
	for i, f := range e.Fields {
		slots[i] = pipeline.Value{}
		switch f.From {
		case FromLeft, FromRight:
			if row := p.sides[f.From]; row != nil {
				slots[i] = row[f.Index]
			}
		case FromEither:
			if row := p.sides[Left]; row != nil {
				slots[i] = row[f.Index]
			} else if row := p.sides[Right]; row != nil {
				slots[i] = row[f.Other]
			}
		case FromStart:
			slots[i] = pipeline.IntValue(p.start)
		case FromEnd:
			slots[i] = pipeline.IntValue(p.end)
		}
	}
}

// appendKey appends the key of a row; null tells that a part of it is null, which is equal to nothing.
func (s Side) appendKey(dst []byte, slots []pipeline.Value) (key []byte, null bool) {
	for _, slot := range s.Key {
		var err error
		if dst, err = pipeline.AppendKey(dst, slots[slot]); err != nil {
			panic("BUG: an error value stands in a row")
		}
		null = null || slots[slot].IsNull()
	}
	return dst, null
}

// kept gives the slots of a row that joined rows need; never nil.
func (s Side) kept(slots []pipeline.Value, out *pipeline.Out) []pipeline.Value {
	values := out.Slots(len(s.Keep))
	for i, slot := range s.Keep {
		values[i] = slots[slot]
	}
	return values
}
