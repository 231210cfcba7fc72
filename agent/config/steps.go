package config

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// textsKind is one text or a list of them.
type textsKind struct{ of textKind }

func (k textsKind) label() string { return k.of.what + ", or a list of them" }
func (k textsKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{k.of.schema(), map[string]any{"type": "array", "minItems": 1, "items": k.of.schema()}}}
}
func (textsKind) reads(*[]plan.Text) {}
func (k textsKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.Text)
	items := []*node{n}
	if n.shape == shapeList {
		items = n.items
		if len(items) == 0 {
			r.wrong(n, k.label())
		}
	}
	for _, item := range items {
		var t plan.Text
		k.of.read(r, item, &t)
		if t.Value != "" {
			*into = append(*into, t)
		}
	}
}

// columnsKind is a mapping from column names to expressions.
type columnsKind struct {
	what  string // "a column"
	texts string // what the right side is
	free  bool   // any name, not only a field name
}

func (k columnsKind) label() string { return "a mapping from names to " + k.texts }
func (k columnsKind) schema() map[string]any {
	return map[string]any{"type": "object", "minProperties": 1, "additionalProperties": map[string]any{"type": []string{"string", "number"}}}
}
func (columnsKind) reads(*[]plan.ColumnSpec) {}
func (k columnsKind) read(r *reader, n *node, place any) {
	into := place.(*[]plan.ColumnSpec)
	list := pairs(r, n, k.label(), k.what)
	if n.shape == shapeMapping && len(list) == 0 {
		r.wrong(n, k.label())
	}
	for _, e := range list {
		if reason := plan.CheckFieldName(e.key.text); reason != "" && !k.free {
			r.problems.Add(e.key.pos, "", plan.FieldNameAllowed, "%s %s: %s", k.what, quote(e.key.text), reason)
		}
		c := plan.ColumnSpec{Name: e.key.toText()}
		expressionKind.read(r, e.value, &c.Expr)
		*into = append(*into, c)
	}
}

// selectKind is a mapping from names to expressions, or a list of fields that keep their names.
type selectKind struct{}

var selectColumns = columnsKind{what: "column", texts: "expressions"}

func (selectKind) label() string { return "a mapping from names to expressions, or a list of fields" }
func (selectKind) schema() map[string]any {
	return map[string]any{"anyOf": []any{selectColumns.schema(), map[string]any{"type": "array", "minItems": 1, "items": map[string]any{"type": "string"}}}}
}
func (selectKind) reads(**plan.SelectSpec) {}
func (k selectKind) read(r *reader, n *node, place any) {
	into := place.(**plan.SelectSpec)
	*into = &plan.SelectSpec{Pos: n.pos}
	if n.shape == shapeMapping {
		selectColumns.read(r, n, &(*into).Columns)
		return
	}
	if n.shape != shapeList || len(n.items) == 0 {
		r.wrong(n, k.label())
		return
	}
	for _, item := range n.items {
		var t plan.Text
		expressionKind.read(r, item, &t)
		name := t
		if i := strings.LastIndexByte(name.Value, '.'); i >= 0 {
			name.Value = name.Value[i+1:]
		}
		name.Value = strings.TrimPrefix(name.Value, "$")
		if reason := plan.CheckFieldName(name.Value); reason != "" && t.Value != "" {
			r.problems.Add(item.pos, "", "write it as NAME: "+t.Value+", a list holds fields only", "column %s: %s", quote(t.Value), reason)
		}
		(*into).Columns = append((*into).Columns, plan.ColumnSpec{Name: name, Expr: t})
	}
}

// durationMax bounds durations within steps.
const durationMax = 10 * 365 * 24 * time.Hour

var (
	expressionKind = textKind{what: "an expression such as temp > 8"}
	referenceKind  = textKind{what: "the name of a source or step"}
	pathOfField    = textKind{what: "a field such as device or $topic"}
)

// notBuilt are operators that Flink or later releases have.
var notBuilt = []string{"keyBy", "map", "flatMap", "process"}

const stepKinds = "a step is one of filter, select, cast, flatten, split, window (with aggregate), deadband, changed, lag, delta, counter, zscore, throttle, sample, alarm, absence, dedup, sort, lookup, join (two inputs), or a union (several inputs and nothing else)"

var stepObject = &object[plan.StepSpec]{place: func(s *plan.StepSpec, at plan.Pos) { s.Pos = at }, section: section{what: "a step", unknown: func(key string) string {
	if slices.Contains(notBuilt, key) {
		return stepKinds
	}
	return ""
}, list: slices.Concat([]*setting{
	set("uid", at(func(s *plan.StepSpec) *plan.Text { return &s.UID }).is(nameKind("the step's name", false)),
		"The step's name, for good: its state is kept under it, others name it in from.", required()),
	set("was", at(func(s *plan.StepSpec) *plan.Text { return &s.Was }).is(nameKind("the step's earlier name", false)),
		"The uid under which the step's state was saved before it was renamed; a restore of a savepoint takes it over."),
	set("from", at(func(s *plan.StepSpec) *[]plan.Text { return &s.From }).is(textsKind{referenceKind}),
		"Source or step whose rows it takes; STEP.OUTPUT takes another output, such as STEP.late of a window. A list makes a union.", required()),
	set("filter", at(func(s *plan.StepSpec) **plan.Text { return &s.Filter }).is(pointerTo[plan.Text]{expressionKind}),
		"Passes the rows for which the condition is true."),
	set("select", at(func(s *plan.StepSpec) **plan.SelectSpec { return &s.Select }).is(selectKind{}),
		"Makes rows of exactly these columns: {name: expression, …}, or [field, …]."),
	set("by", at(func(s *plan.StepSpec) *[]plan.Text { return &s.By }).is(textsKind{pathOfField}),
		"Fields that make the key: each key has a state of its own. For all steps with a state per key."),
	set("window", at(func(s *plan.StepSpec) **plan.WindowSpec { return &s.Window }).is(windowKind{}),
		"Groups rows by time, count or state; aggregate or top says what is computed. Columns: the by fields, window_start, window_end, the aggregates, revision."),
	set("top", at(func(s *plan.StepSpec) **plan.TopSpec { return &s.Top }).is(optional[plan.TopSpec]{topObject}),
		"Instead of aggregate: the first rows of each window in an order. Columns: the by fields, window_start, window_end, rank, those of the rows, revision."),
	set("aggregate", at(func(s *plan.StepSpec) *[]plan.ColumnSpec { return &s.Aggregate }).is(columnsKind{what: "aggregate", texts: "aggregates such as avg(temp)"}),
		"Columns of a window: count() or an aggregate of an expression, such as avg(temp), percentile(temp, 95) or collect(id, 100); docs/aggregates.md lists them."),
	set("deadband", at(func(s *plan.StepSpec) **plan.DeadbandSpec { return &s.Deadband }).is(optional[plan.DeadbandSpec]{deadbandObject}),
		"Passes the first row of a key, and then those whose value differs from the last passed by more than the threshold."),
	set("alarm", at(func(s *plan.StepSpec) **plan.AlarmSpec { return &s.Alarm }).is(optional[plan.AlarmSpec]{alarmObject}),
		"Tells when a condition begins and ends, with hysteresis."),
	set("dedup", at(func(s *plan.StepSpec) **plan.DedupSpec { return &s.Dedup }).is(optional[plan.DedupSpec]{dedupObject}),
		"Drops rows whose key was seen before."),
	set("sort", at(func(s *plan.StepSpec) **plan.Text { return &s.Sort }).is(pointerTo[plan.Text]{choiceText{choiceKind{words: []string{"event_time"}}}}),
		"event_time: holds rows until the watermark passes them and lets them go in the order of their time; late ones go to STEP.late."),
}, operatorSettings, joinSettings, []*setting{
	set("ttl", at(func(s *plan.StepSpec) **int64 { return &s.TTLNs }).is(pointerTo[int64]{nanoseconds{durationKind{never: "never", most: durationMax}}}),
		"Overrides state.ttl of the pipeline."),
	set("max_keys", at(func(s *plan.StepSpec) **int { return &s.MaxKeys }).is(pointerTo[int]{intKind{0, math.MaxInt32}}),
		"Overrides state.max_keys of the pipeline."),
})}, flaw: func(s *plan.StepSpec) { s.Flawed = true }, check: func(r *reader, n *node, s *plan.StepSpec) {
	for _, e := range n.entries {
		if e.key.text == "aggregate" {
			s.AggregatePos = e.key.pos
		}
	}
}}

var deadbandObject = &object[plan.DeadbandSpec]{place: func(d *plan.DeadbandSpec, at plan.Pos) { d.Pos = at }, section: section{what: "deadband", list: []*setting{
	set("value", at(func(d *plan.DeadbandSpec) *plan.Text { return &d.Value }).is(expressionKind), "The number that is watched.", required()),
	set("threshold", at(func(d *plan.DeadbandSpec) *float64 { return &d.Threshold }).is(floatKind{0, math.MaxFloat64}), "A row passes when the value moved by more than this.", required()),
}}}

var alarmObject = &object[plan.AlarmSpec]{place: func(a *plan.AlarmSpec, at plan.Pos) { a.Pos = at }, section: section{what: "alarm", list: []*setting{
	set("value", at(func(a *plan.AlarmSpec) *plan.Text { return &a.Value }).is(expressionKind), "The value that is watched; it is part of the alarm's row.", required()),
	set("raise", at(func(a *plan.AlarmSpec) *plan.Text { return &a.Raise }).is(expressionKind), `Condition that raises it: "> 8" compares the value, or a whole expression.`, required()),
	set("clear", at(func(a *plan.AlarmSpec) *plan.Text { return &a.Clear }).is(expressionKind), `Condition that clears it. Left out: when raise is false.`),
	set("hold", at(func(a *plan.AlarmSpec) *int64 { return &a.HoldNs }).is(nanoseconds{durationKind{most: durationMax}}), "The condition must hold so long before the alarm is raised.", byDefault("0s")),
	set("latch", at(func(a *plan.AlarmSpec) *bool { return &a.Latch }).is(boolKind{}), "Needs clear. While raise is true as well, clear does not clear it.", byDefault("false")),
}}}

var dedupObject = &object[plan.DedupSpec]{place: func(d *plan.DedupSpec, at plan.Pos) { d.Pos = at }, section: section{what: "dedup", list: []*setting{
	set("key", at(func(d *plan.DedupSpec) *[]plan.Text { return &d.Key }).is(textsKind{expressionKind}), "Expressions that together name a record, such as [$topic, seq].", required()),
}}}
