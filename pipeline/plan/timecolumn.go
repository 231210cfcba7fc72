package plan

import "github.com/weirstream/weir/pipeline"

// timeColumn shows the event time of the rows that an operator makes in a column of them: what leaves through a sink has
// only columns.
type timeColumn struct {
	pipeline.Operator
	slot int
	from int // rows that are complete
}

// withTime adds the column; slot -1 leaves the operator as it is.
func withTime(op pipeline.Operator, slot int) pipeline.Operator {
	if slot < 0 {
		return op
	}
	return &timeColumn{Operator: op, slot: slot}
}

func (t *timeColumn) Process(input int, r *pipeline.Row, out *pipeline.Out) {
	before := len(out.Ports[0])
	t.Operator.Process(input, r, out)
	t.fill(out, before)
}

func (t *timeColumn) Watermark(w int64, out *pipeline.Out) {
	t.Resume(out)
	out.Completing(t)
	t.Operator.Watermark(w, out)
	out.Completing(nil)
	t.Complete(out)
}

func (t *timeColumn) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	t.Resume(out)
	out.Completing(t)
	t.Operator.Elapsed(now, out)
	out.Completing(nil)
	t.Complete(out)
}

// Complete implements pipeline.Completer.
func (t *timeColumn) Complete(out *pipeline.Out) { t.fill(out, t.from) }

// Resume implements pipeline.Completer.
func (t *timeColumn) Resume(out *pipeline.Out) { t.from = len(out.Ports[0]) }

// fill completes the rows just made; nobody has seen them yet.
func (t *timeColumn) fill(out *pipeline.Out, from int) {
	for i := from; i < len(out.Ports[0]); i++ {
		if r := &out.Ports[0][i]; r.Time != pipeline.NoTime {
			r.Slots[t.slot] = pipeline.IntValue(r.Time)
		}
	}
}
