package plan

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/window"
)

// aggregate compiles one call such as avg(temp); nil: its problem is noted.
func (c *compiler) aggregate(b *built, a ColumnSpec, in scope) (agg *window.Agg, kind pipeline.Kind, canonical string) {
	if a.Expr.Value == "" {
		return nil, 0, ""
	}
	known := window.AggNames()
	allowed := fmt.Sprintf("an aggregate is one call of %s, such as avg(temp) or count()", strings.Join(known, ", "))
	call, err := expr.ParseCall(a.Expr.Value)
	if err != nil {
		p := Problem{Pos: a.Expr.Pos, Found: fmt.Sprintf("aggregate %s: %s", a.Name, err), Allowed: allowed}
		var e *expr.Error
		if errors.As(err, &e) {
			p.Pos, p.Found = a.Expr.At(e.Offset), fmt.Sprintf("aggregate %s: %s", a.Name, e.Msg)
		}
		c.problems = append(c.problems, p)
		return nil, 0, ""
	}
	fn, err := window.ParseAggKind(call.Name, len(call.Args))
	if err != nil {
		near := suggest.Nearest(call.Name, known)
		found := fmt.Sprintf("aggregate %s: %q is no aggregate", a.Name, call.Name)
		if slices.Contains(known, call.Name) {
			near, found = "", fmt.Sprintf("aggregate %s: %s has %d arguments", a.Name, call.Name, len(call.Args))
			allowed = fmt.Sprintf("%s takes one argument, such as %s(temp)", call.Name, call.Name)
			if fn, err := window.ParseAggKind(call.Name, 2); err == nil { // it wants a constant as well
				allowed = fn.CheckParam(-1)
			}
		}
		c.problems.Add(a.Expr.Pos, near, allowed, "%s", found)
		return nil, 0, ""
	}
	if fn == window.CountRows {
		return &window.Agg{Kind: fn}, pipeline.Int, "count()"
	}
	param, text, ok := c.aggregateParam(a, fn, call)
	var kinds []pipeline.Kind
	if fn.Numeric() {
		kinds = numbers
	}
	argument := a.Expr
	argument.Value = call.Args[0]
	argument.Pos = a.Expr.At(call.At[0])
	prog := c.expression("aggregate "+a.Name.Value, argument, in, kinds)
	if prog == nil || !ok {
		return nil, 0, ""
	}
	b.programs = append(b.programs, prog)
	agg = &window.Agg{Kind: fn, Arg: prog, Param: param}
	return agg, aggregateKind(fn, prog.Kind()), call.Name + "(" + prog.String() + text + ")"
}

// aggregateParam reads the constant that stands as second argument; text is its canonical form.
func (c *compiler) aggregateParam(a ColumnSpec, fn window.AggKind, call expr.Call) (param float64, text string, ok bool) {
	if fn.Args() < 2 {
		return 0, "", true
	}
	param, err := strconv.ParseFloat(strings.ReplaceAll(call.Args[1], "_", ""), 64)
	allowed := fn.CheckParam(param)
	if err != nil {
		allowed = fn.CheckParam(-1)
	}
	if allowed != "" {
		c.problems.Add(a.Expr.At(call.At[1]), "", allowed, "aggregate %s: found %s", a.Name, call.Args[1])
		return 0, "", false
	}
	return param, ", " + strconv.FormatFloat(param, 'g', -1, 64), true
}

// aggregateKind is the kind of an aggregate's result.
func aggregateKind(fn window.AggKind, argument pipeline.Kind) pipeline.Kind {
	switch fn {
	case window.Count, window.CountRows, window.Distinct:
		return pipeline.Int
	case window.Avg, window.Stddev, window.StddevSamp, window.Variance, window.VarianceSamp, window.Median, window.Percentile, window.Rate:
		return pipeline.Float
	case window.Collect:
		return pipeline.JSON
	}
	return argument
}
