package ops

import "github.com/weirstream/weir/pipeline"

// Union passes the rows of all its inputs on, in the total order, under one schema: fields of the same name share a
// slot, a field that an input lacks is null.
type Union struct {
	pipeline.Stateless
	mapping [][]int // per input: out slot -> in slot, -1 null
	width   int
	same    []bool // per input: the schemas agree slot by slot, rows pass uncopied
}

// NewUnion makes a union; mapping[input][out slot] is the slot in that input's rows, -1 for none.
func NewUnion(mapping [][]int, width int) *Union {
	u := &Union{mapping: mapping, width: width, same: make([]bool, len(mapping))}
	for i, m := range mapping {
		u.same[i] = true
		for slot, from := range m {
			u.same[i] = u.same[i] && slot == from
		}
	}
	return u
}

// Process implements pipeline.Operator.
func (u *Union) Process(input int, r *pipeline.Row, out *pipeline.Out) {
	if u.same[input] && len(r.Slots) == u.width {
		out.Forward(0, r)
		return
	}
	slots := out.Slots(u.width)
	for slot, from := range u.mapping[input] {
		if from >= 0 {
			slots[slot] = r.Slots[from]
		}
	}
	out.Emit(0, r.Time, slots)
}
