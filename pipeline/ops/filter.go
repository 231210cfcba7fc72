package ops

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// Filter passes the rows whose predicate is true. Null is not true. A predicate that fails, or is neither bool nor
// null, refuses the row.
type Filter struct {
	pipeline.Stateless
	pred *expr.Program
}

// NewFilter makes a filter.
func NewFilter(pred *expr.Program) *Filter { return &Filter{pred: pred} }

// Process implements pipeline.Operator.
func (f *Filter) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	switch ok, failure := f.pred.True(r.Slots); {
	case ok:
		out.Forward(0, r)
	case failure != "":
		out.Refuse(reasonExpression, "filter: "+failure, r)
	default:
		out.Counters.Dropped++
	}
}

// refuseValue refuses a row because of what an expression gave for it.
func refuseValue(out *pipeline.Out, r *pipeline.Row, what string, v pipeline.Value) {
	if v.Kind == pipeline.Error {
		out.Refuse(reasonExpression, what+": "+v.Str, r)
		return
	}
	out.Refuse(reasonExpression, what+": found a "+v.Kind.String(), r)
}
