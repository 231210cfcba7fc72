package ops

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// CastColumn is a field that gets another type.
type CastColumn struct {
	Slot int // own column
	Prog *expr.Program
	Uint bool // from 0 on
	Name string
}

// CastConfig sets up a cast.
type CastConfig struct {
	Carry
	Columns []CastColumn
}

// Cast gives fields another type. Null stays null. A value that cannot be cast refuses its row.
type Cast struct {
	pipeline.Stateless
	c CastConfig
}

// NewCast makes a cast.
func NewCast(c CastConfig) *Cast { return &Cast{c: c} }

// Process implements pipeline.Operator.
func (c *Cast) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	slots := c.c.row(r, out)
	for _, col := range c.c.Columns {
		v := col.Prog.Eval(r.Slots)
		if v.Kind == pipeline.Error {
			refuseValue(out, r, "cast "+col.Name, v)
			return
		}
		if col.Uint && v.Kind == pipeline.Int && v.Int() < 0 {
			out.Refuse(reasonExpression, "cast "+col.Name+": a negative number is no uint", r)
			return
		}
		slots[col.Slot] = v
	}
	out.Emit(0, r.Time, slots)
}
