package ops

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// FlattenConfig sets up a flatten.
type FlattenConfig struct {
	Carry
	Array int // slot of the row that comes in
	// Fields are what is taken out of an element, into own columns; the one without a path is the element itself.
	Fields []codec.Field
	// Objects: an element is an object, with text, numbers or bools in the slots Scalars.
	Objects     bool
	Scalars     []ElementScalar
	IndexSlot   int // own column; -1: none
	ElementsMax int // of an array
	Time        *ElementTime
}

// ElementScalar is a field of an element that is no object and no array.
type ElementScalar struct {
	Slot int
	Name string
}

// ElementTime says where an element's event time is.
type ElementTime struct {
	Slot         int // own column
	OutSlot      int // own column that shows it in ms; -1: none
	Unit         codec.Unit
	MinMs, MaxMs int64 // sane range
}

// Validate names the field that is wrong.
func (c FlattenConfig) Validate() error {
	switch {
	case c.ElementsMax < 1:
		return fmt.Errorf("%w: flatten: limit is %d, want 1 or more", ErrConfig, c.ElementsMax)
	case c.Time != nil && c.Time.MinMs > c.Time.MaxMs:
		return fmt.Errorf("%w: flatten: the sane range of event time is empty", ErrConfig)
	}
	return nil
}

// Flatten makes a row of each element of an array: what came in, and columns of the element. Null is no array and makes no row:
// it is dropped and counted; an empty array makes none either. An element that is not what was declared is a dead letter of its own, which names its
// index; the others go on. With a time of their own, the rows have that as event time.
type Flatten struct {
	pipeline.Stateless
	c       FlattenConfig
	decoder codec.Decoder
}

// NewFlatten makes a flatten from a valid config.
func NewFlatten(c FlattenConfig) *Flatten {
	return &Flatten{c: c, decoder: codec.NewJSON(c.Fields, -1, codec.Default())}
}

// Process implements pipeline.Operator.
func (f *Flatten) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := r.Slots[f.c.Array]
	if v.IsNull() {
		out.Counters.Dropped++
		return
	}
	elements, ok := codec.Elements(v)
	if !ok {
		out.Refuse(reasonNoArray, "flatten: found "+what(v), r)
		return
	}
	if n := f.count(v); n > f.c.ElementsMax {
		out.Refuse(reasonElement, fmt.Sprintf("flatten: the array has more than %d elements", f.c.ElementsMax), r)
		return
	}
	for i, text := range elements {
		f.element(i, text, r, out)
	}
}

// count goes one beyond the limit at most.
func (f *Flatten) count(v pipeline.Value) (n int) {
	if len(v.Str) < f.c.ElementsMax { // an element takes a byte at least
		return 0
	}
	elements, _ := codec.Elements(v)
	for range elements {
		if n++; n > f.c.ElementsMax {
			break
		}
	}
	return n
}

func (f *Flatten) element(index int, text string, r *pipeline.Row, out *pipeline.Out) {
	slots := f.c.row(r, out)
	time, bad := r.Time, f.decode(text, slots)
	if bad == "" && f.c.Time != nil {
		time, bad = f.time(slots)
	}
	if bad != "" {
		out.Refuse(reasonElement, fmt.Sprintf("element %d: %s", index, bad), r)
		return
	}
	if f.c.IndexSlot >= 0 {
		slots[f.c.IndexSlot] = pipeline.IntValue(int64(index))
	}
	out.Emit(0, time, slots)
}

// decode fills the columns of an element; what it gives says what is wrong.
func (f *Flatten) decode(text string, slots []pipeline.Value) (bad string) {
	if f.c.Objects && text[0] != '{' {
		return "declared an object, found " + what(pipeline.JSONValue(text))
	}
	if err := codec.DecodeElement(f.decoder, text, slots); err != nil {
		var at *codec.Error
		if errors.As(err, &at) && at.Field != "" {
			return "field " + at.Field + ": " + at.Reason
		}
		return err.Error()
	}
	for _, s := range f.c.Scalars {
		if v := slots[s.Slot]; v.Kind == pipeline.JSON {
			return "field " + s.Name + ": declared scalar, found " + what(v)
		}
	}
	return ""
}

// time is the element's own.
func (f *Flatten) time(slots []pipeline.Value) (ms int64, bad string) {
	t := f.c.Time
	v := slots[t.Slot]
	if v.IsNull() {
		return 0, "the time field is missing or null"
	}
	ms, err := codec.ParseTime(v, t.Unit)
	if err != nil {
		return 0, err.Error()
	}
	if ms < t.MinMs || ms > t.MaxMs {
		return 0, fmt.Sprintf("event time %d ms is outside of the sane range [%d, %d]: wrong unit?", ms, t.MinMs, t.MaxMs)
	}
	if t.OutSlot >= 0 {
		slots[t.OutSlot] = pipeline.IntValue(ms)
	}
	return ms, ""
}

// what names a value for a person.
func what(v pipeline.Value) string {
	if v.Kind != pipeline.JSON || v.Str == "" {
		return "a " + v.Kind.String()
	}
	switch v.Str[0] {
	case '[':
		return "an array"
	case '{':
		return "an object"
	case '"':
		return "text"
	case 'n':
		return "null"
	case 't', 'f':
		return "a bool"
	}
	return "a number"
}
