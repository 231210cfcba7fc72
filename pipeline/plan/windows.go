package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/suggest"
	"github.com/weirstream/weir/pipeline/window"
)

// The columns of a window's rows besides its key and aggregates.
const (
	columnStart    = "window_start"
	columnEnd      = "window_end"
	columnRevision = "revision"
)

var aggregates = []string{"count", "sum", "avg", "min", "max", "first", "last"}

func (c *compiler) window(b *built, in *edge) bool {
	w := b.spec.Window
	if !in.timed {
		c.noTime(b.spec, w.Pos)
		return false
	}
	keys, ok := c.keys(b.spec, in.scope)
	t := &table{what: stepName(b.spec)}
	config := window.TumblingConfig{
		Key: slotsOf(keys), SizeMs: w.SizeMs, OffsetMs: w.OffsetMs, LatenessMs: w.LatenessMs, MaxKeys: c.maxKeys(b.spec), TTL: ownTTL(b.spec),
	}
	config.StartSlot, config.EndSlot = t.add(columnStart, pipeline.Int), t.add(columnEnd, pipeline.Int)
	columns, good := c.keyColumns(b.spec, t, keys)
	config.KeyOut, ok = columns, ok && good
	var text []string
	for _, a := range b.spec.Aggregate {
		agg, kind, canonical := c.aggregate(b, a, in.scope)
		if agg == nil {
			ok = false
			continue
		}
		slot, good := c.column(t, a.Name.Value, kind, a.Name.Pos)
		agg.Slot, ok = slot, ok && good
		config.Aggs = append(config.Aggs, *agg)
		text = append(text, a.Name.Value+"="+canonical)
	}
	if config.RevisionSlot, good = c.column(t, columnRevision, pipeline.Int, b.spec.Pos); !good || !ok {
		return false
	}
	config.Width = t.width()
	b.stateful, b.validate, b.fixed = true, config.Validate, t
	b.out = []edge{{scope: t, timed: true}, *in}
	b.keyedBy(config.Key, stateKeyBehind(window.KeyAt), config.KeyOut, config.Key)
	b.new = func() pipeline.Operator { return window.NewTumbling(config) }
	b.params = func() string {
		return fmt.Sprintf("tumbling %d offset %d lateness %d by %s ttl %d max_keys %d\n%s",
			w.SizeMs, w.OffsetMs, w.LatenessMs, keyText(keys), config.TTL, config.MaxKeys, strings.Join(text, "\n"))
	}
	return true
}

// aggregate compiles one call such as avg(temp); nil: its problem is noted.
func (c *compiler) aggregate(b *built, a ColumnSpec, in scope) (agg *window.Agg, kind pipeline.Kind, canonical string) {
	if a.Expr.Value == "" {
		return nil, 0, ""
	}
	const allowed = "an aggregate is one call of count, sum, avg, min, max, first or last, such as avg(temp) or count()"
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
		near := suggest.Nearest(call.Name, aggregates)
		found := fmt.Sprintf("aggregate %s: %q is no aggregate", a.Name, call.Name)
		for _, known := range aggregates {
			if known == call.Name {
				near, found = "", fmt.Sprintf("aggregate %s: %s has %d arguments", a.Name, call.Name, len(call.Args))
			}
		}
		c.problems.Add(a.Expr.Pos, near, allowed, "%s", found)
		return nil, 0, ""
	}
	if fn == window.CountRows {
		return &window.Agg{Kind: fn}, pipeline.Int, "count()"
	}
	var kinds []pipeline.Kind
	if fn == window.Sum || fn == window.Avg {
		kinds = numbers
	}
	argument := a.Expr
	argument.Value = call.Args[0]
	argument.Pos = a.Expr.At(call.At[0])
	prog := c.expression("aggregate "+a.Name.Value, argument, in, kinds)
	if prog == nil {
		return nil, 0, ""
	}
	b.programs = append(b.programs, prog)
	return &window.Agg{Kind: fn, Arg: prog}, aggregateKind(fn, prog.Kind()), call.Name + "(" + prog.String() + ")"
}

// aggregateKind is the kind of an aggregate's result.
func aggregateKind(fn window.AggKind, argument pipeline.Kind) pipeline.Kind {
	switch fn {
	case window.Count, window.CountRows:
		return pipeline.Int
	case window.Avg:
		return pipeline.Float
	}
	return argument
}

// ownTTL is a ttl set on the step itself. A window's state ends with the window: the pipeline's state.ttl would only drop
// windows that have not fired yet.
func ownTTL(s *StepSpec) int64 {
	if s.TTLNs == nil {
		return 0
	}
	return *s.TTLNs
}
