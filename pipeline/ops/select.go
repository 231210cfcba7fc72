package ops

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// Column computes one field of a new row.
type Column struct {
	Slot int
	Prog *expr.Program
}

// Select makes a new row of computed columns for each row. The event time stays. A row with a column that fails is
// refused whole.
type Select struct {
	pipeline.Stateless
	columns []Column
	width   int
}

// NewSelect makes a select whose rows have width slots; slots that no column fills are null.
func NewSelect(columns []Column, width int) *Select { return &Select{columns: columns, width: width} }

// Process implements pipeline.Operator.
func (s *Select) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	slots := out.Slots(s.width)
	for _, c := range s.columns {
		v := c.Prog.Eval(r.Slots)
		if v.Kind == pipeline.Error {
			refuseValue(out, r, "select", v)
			return
		}
		slots[c.Slot] = v
	}
	out.Emit(0, r.Time, slots)
}
