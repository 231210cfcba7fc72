package ops

import "github.com/weirstream/weir/pipeline"

// Carry tells what the rows of an operator that adds columns are made of: Carry[slot] is the slot of the row that came in,
// -1 for a column of the operator's own.
type Carry []int

// row begins a row: what is carried is in it, the own columns are null.
func (c Carry) row(r *pipeline.Row, out *pipeline.Out) []pipeline.Value {
	slots := out.Slots(len(c))
	for slot, from := range c {
		if from >= 0 {
			slots[slot] = r.Slots[from]
		}
	}
	return slots
}
