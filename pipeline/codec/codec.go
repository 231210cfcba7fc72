// Package codec turns payloads into slots and rows into payloads.
//
// A decoder is made once per source from the fields that the plan uses; it reads a payload in one pass, checks all of it
// and stores only what is wanted. AppendJSON is the way back. ParseTime reads event times. What is accepted, refused and
// converted is written in docs/formats.md; the examples there are executed by a test.
//
// The package keeps nothing, does no I/O and reads no clock: the same payload gives the same slots on every device.
package codec

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// ValueField is the field that the text and bytes decoders fill.
const ValueField = "value"

// Field is one wanted part of a payload.
type Field struct {
	Path pipeline.Path
	Slot int
	// Kind is the declared type, Null when the payload decides. Int stands for every exact integer from -2^63 to 2^64-1
	// (the value is of kind Uint above 2^63-1), Uint for those from 0.
	Kind pipeline.Kind
}

// Decoder reads payloads. It belongs to one goroutine.
type Decoder interface {
	// Decode checks the whole payload and sets every wanted slot, to null where the payload lacks the field. Text without
	// escapes aliases the payload, which must never be written afterwards. A refused payload gives an *Error and leaves
	// the slots undefined.
	Decode(payload []byte, slots []pipeline.Value) error
}

// Limits bound what a payload may cost.
type Limits struct {
	// Depth is how many arrays and objects may be open at once.
	Depth int
	// Elements is how many elements a CBOR array, or pairs a CBOR map, may have.
	Elements int
}

// Default gives 64 levels and 131,072 elements.
func Default() Limits { return Limits{Depth: 64, Elements: 131072} }

const (
	depthMin, depthMax       = 4, 1000
	elementsMin, elementsMax = 16, 1 << 24
)

// Validate names the first limit out of its range.
func (l Limits) Validate() error {
	if l.Depth < depthMin || l.Depth > depthMax {
		return fmt.Errorf("check limits: depth %d is not in %d..%d", l.Depth, depthMin, depthMax)
	}
	if l.Elements < elementsMin || l.Elements > elementsMax {
		return fmt.Errorf("check limits: elements %d is not in %d..%d", l.Elements, elementsMin, elementsMax)
	}
	return nil
}

// orDefault replaces limits that are unset or out of range: a decoder is never without bounds.
func (l Limits) orDefault() Limits {
	d := Default()
	if l.Depth < depthMin || l.Depth > depthMax {
		l.Depth = d.Depth
	}
	if l.Elements < elementsMin || l.Elements > elementsMax {
		l.Elements = d.Elements
	}
	return l
}
