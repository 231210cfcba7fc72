package ops

import "github.com/weirstream/weir/pipeline"

// Filter passes the rows whose predicate is true. Null is not true. A predicate that fails, or is neither bool nor
// null, refuses the row.
type Filter struct {
	pipeline.Stateless
	pred Expr
}

// NewFilter makes a filter.
func NewFilter(pred Expr) *Filter { return &Filter{pred: pred} }

// Process implements pipeline.Operator.
func (f *Filter) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	switch v := f.pred.Eval(r.Slots); v.Kind {
	case pipeline.Bool:
		if v.Bool() {
			out.Forward(0, r)
			return
		}
		out.Counters.Dropped++
	case pipeline.Null:
		out.Counters.Dropped++
	default:
		refuseValue(out, r, "filter", v)
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
