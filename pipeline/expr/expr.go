// Package expr is the expression language of filters, computed fields and aggregates: a documented subset of expr-lang's
// syntax (docs/expressions.md) with SQL's three-valued null, exact integers and no way to loop.
//
// Compile checks an expression against the fields of a step and makes closures over their slots. A Program is immutable,
// may be shared by goroutines, reads no clock and keeps nothing; the same slots give the same value on every device.
package expr

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Env tells which fields an expression may use.
type Env interface {
	// Field gives the slot of a field and its kind, Null when only the run tells. Kind Int stands for every exact integer from
	// -2^63 to 2^64-1. A field that does not exist is an error, whose text goes into the message.
	Field(p pipeline.Path) (slot int, kind pipeline.Kind, err error)
}

// Namer may be implemented by an Env: its names are suggested in place of misspelt ones.
type Namer interface{ Names() []string }

// Limits of one expression. They are part of the language: an accepted expression stays accepted.
const (
	SourceBytesMax = 16 << 10
	NodesMax       = 1000
	DepthMax       = 250
	// TextBytesMax bounds a text that an expression builds; a longer one is an Error value.
	TextBytesMax = 1 << 20
)

// Program is a compiled expression.
type Program struct {
	root  *node
	value valueFunc
	pred  predFunc // nil unless the expression can only be a bool
}

type valueFunc func(slots []pipeline.Value) pipeline.Value

// Compile parses, checks and compiles an expression. The error is an *Error.
func Compile(src string, env Env) (*Program, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	c := checker{env: env}
	if err := c.check(root); err != nil {
		return nil, err
	}
	p := &Program{root: root, value: compileValue(root)}
	if root.is(boolMask) {
		p.pred = compilePred(root)
	}
	return p, nil
}

// Eval computes the value. Kind Error says why it failed. It allocates only for text that it builds.
func (p *Program) Eval(slots []pipeline.Value) pipeline.Value { return p.value(slots) }

// True tells whether the value is true: null is not. An expression that failed, or gave no bool, is not true either, and
// the reason is not empty.
func (p *Program) True(slots []pipeline.Value) (ok bool, errReason string) {
	if p.pred != nil {
		if t := p.pred(slots); t != triError {
			return t == triTrue, ""
		}
	}
	switch v := p.value(slots); v.Kind {
	case pipeline.Bool:
		return v.Bool(), ""
	case pipeline.Null:
		return false, ""
	case pipeline.Error:
		return false, v.Str
	default:
		return false, fmt.Sprintf("want a bool, found %s", v.Kind)
	}
}

// Kind is the kind of every value but null and errors, Null when only the run tells. Int means an exact integer, which is
// of kind Uint above 2^63-1.
func (p *Program) Kind() pipeline.Kind { return p.root.kinds.kind() }

// Deterministic tells whether the value depends on the slots alone. The language has no clock and no chance: it always does, but for the
// function that builds for the crash run add.
func (p *Program) Deterministic() bool { return p.root.deterministic() }

// String is the expression in canonical form: programs with equal text mean the same.
func (p *Program) String() string { return p.root.String() }

// Constant tells whether the expression asks for no field: its value is the same for every row.
func (p *Program) Constant() bool { return p.root.isConst() } // operations on constants were folded

// Slot is the slot of an expression that is a field and nothing else.
func (p *Program) Slot() (slot int, ok bool) { return p.root.slot, p.root.kind == nodeField }
