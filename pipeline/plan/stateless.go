package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
)

func (c *compiler) filter(b *built, in *edge) bool {
	prog := c.expression("filter", *b.spec.Filter, in.scope, condition)
	if prog == nil {
		return false
	}
	b.programs, b.narrow = []*expr.Program{prog}, true
	b.out = []edge{*in}
	b.new = func() pipeline.Operator { return ops.NewFilter(prog) }
	b.params = prog.String
	return true
}

func (c *compiler) selects(b *built, in *edge) bool {
	t := &table{what: stepName(b.spec)}
	ok := true
	var columns []ops.Column
	var text []string
	for _, col := range b.spec.Select.Columns {
		prog := c.expression("column "+col.Name.Value, col.Expr, in.scope, nil)
		if prog == nil {
			ok = false
			continue
		}
		slot, good := c.column(t, col.Name.Value, prog.Kind(), col.Name.Pos)
		ok = ok && good
		columns = append(columns, ops.Column{Slot: slot, Prog: prog})
		from, bare := prog.Slot()
		if !bare {
			from = -1
		}
		b.carry = append(b.carry, from)
		b.programs = append(b.programs, prog)
		text = append(text, col.Name.Value+"="+prog.String())
	}
	if !ok || len(columns) == 0 {
		return false
	}
	b.fixed, b.narrow = t, true
	b.out = []edge{{scope: t, timed: in.timed}}
	b.new = func() pipeline.Operator { return ops.NewSelect(columns, t.width()) }
	b.params = func() string { return strings.Join(text, "\n") }
	return true
}

func (c *compiler) union(b *built, inputs []*edge) bool {
	scopes := make([]scope, len(inputs))
	timed := 0
	for i, in := range inputs {
		scopes[i] = in.scope
		if in.timed {
			timed++
		}
		if in.scope.open() != inputs[0].scope.open() {
			c.problems.Add(b.spec.From[i].Pos, "", "put a select step before each input whose columns are not known",
				"%s unites rows with fixed columns and rows whose fields are not all known", stepName(b.spec))
			return false
		}
	}
	if timed != 0 && timed != len(inputs) {
		c.problems.Add(b.spec.From[0].Pos, "", "give each source of it a time setting, or none", "%s unites rows with and without event time", stepName(b.spec))
		return false
	}
	m := newMerged(stepName(b.spec), scopes)
	b.out = []edge{{scope: m, timed: timed > 0}}
	b.new = func() pipeline.Operator { return ops.NewUnion(m.mapping, m.width()) }
	b.params = func() string { return fmt.Sprintf("%d inputs", len(inputs)) }
	return true
}
