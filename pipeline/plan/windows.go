package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/window"
)

// The columns of a window's rows besides its key and contents.
const (
	ColumnStart    = "window_start"
	ColumnEnd      = "window_end"
	columnRevision = "revision"
	columnRank     = "rank"
)

// byTime tells the windows that go by a time; the others go by arrival.
func (w *WindowSpec) byTime() bool { return w.Kind != WindowCount && w.Kind != WindowState }

func (c *compiler) window(b *built, in *edge) bool {
	w := b.spec.Window
	if w.byTime() && !w.Processing && !in.timed {
		c.noTime(b.spec, w.Pos)
		return false
	}
	keys, ok := c.keys(b.spec, in.scope)
	t := &table{what: stepName(b.spec)}
	config := window.Config{
		Key: slotsOf(keys), LatenessMs: w.LatenessMs, EarlyMs: w.EarlyMs, MaxKeys: c.maxKeys(b.spec), TTL: ownTTL(b.spec),
	}
	if !w.byTime() { // nothing but a ttl ends the state of a key that falls silent
		config.TTL = c.ttl(b.spec)
	}
	config.StartSlot, config.EndSlot = t.add(ColumnStart, pipeline.Int), t.add(ColumnEnd, pipeline.Int)
	columns, good := c.keyColumns(b.spec, t, keys)
	config.KeyOut, ok = columns, ok && good
	text, good := c.contents(b, t, in, keys, &config)
	ok = ok && good
	if config.RevisionSlot, good = c.column(t, columnRevision, pipeline.Int, b.spec.Pos); !good || !ok {
		return false
	}
	config.Width = t.width()
	timed := in.timed
	if w.byTime() {
		timed = !w.Processing // rows of processing time have nothing to do with the watermark
	}
	b.stateful, b.fixed = true, t
	b.out = []edge{{scope: t, timed: timed}, *in}
	kind, ok := c.windowKind(b, in, config)
	if !ok {
		return false
	}
	if w.Processing { // in one instance: its clock is one for all keys
		inner := b.new
		b.new = func() pipeline.Operator { return window.NewProcessing(inner(), len(b.out)) }
		kind += " time processing"
	} else {
		b.keyedBy(config.Key, stateKeyBehind(window.KeyAt), config.KeyOut, config.Key)
	}
	b.params = func() string {
		return fmt.Sprintf("%s by %s ttl %d max_keys %d\n%s", kind, keyText(keys), config.TTL, config.MaxKeys, strings.Join(text, "\n"))
	}
	return true
}

// windowKind chooses the operator and gives the canonical text of what the kind has of its own.
func (c *compiler) windowKind(b *built, in *edge, config window.Config) (text string, ok bool) {
	w := b.spec.Window
	early := ""
	if w.EarlyMs > 0 {
		early = fmt.Sprintf(" early %d", w.EarlyMs)
	}
	switch w.Kind {
	case WindowSession:
		s := window.SessionConfig{Config: config, GapMs: w.SizeMs, Split: w.Split}
		b.validate, b.new = s.Validate, func() pipeline.Operator { return window.NewSession(s) }
		return fmt.Sprintf("session %d split %v lateness %d%s", w.SizeMs, w.Split, w.LatenessMs, early), true
	case WindowCount:
		n := window.CountConfig{Config: config, Size: w.Rows, Slide: w.SlideRows}
		b.validate, b.new = n.Validate, func() pipeline.Operator { return window.NewCountWindow(n) }
		return fmt.Sprintf("count %d slide %d", w.Rows, w.SlideRows), true
	case WindowState:
		return c.stateWindow(b, in, config)
	}
	hop := window.HoppingConfig{Config: config, SizeMs: w.SizeMs, SlideMs: w.SizeMs, OffsetMs: w.OffsetMs}
	if w.Kind == WindowHopping {
		hop.SlideMs = w.SlideMs
	} else if config.EarlyMs == 0 && config.Top == nil {
		flat := window.TumblingConfig{
			Key: config.Key, SizeMs: w.SizeMs, OffsetMs: w.OffsetMs, LatenessMs: w.LatenessMs, Aggs: config.Aggs, Width: config.Width, KeyOut: config.KeyOut,
			StartSlot: config.StartSlot, EndSlot: config.EndSlot, RevisionSlot: config.RevisionSlot, MaxKeys: config.MaxKeys, TTL: config.TTL,
		}
		b.validate, b.new = flat.Validate, func() pipeline.Operator { return window.NewTumbling(flat) }
		return fmt.Sprintf("tumbling %d offset %d lateness %d", w.SizeMs, w.OffsetMs, w.LatenessMs), true
	}
	b.validate, b.new = hop.Validate, func() pipeline.Operator { return window.NewHopping(hop) }
	return fmt.Sprintf("hopping %d by %d offset %d lateness %d%s", hop.SizeMs, hop.SlideMs, hop.OffsetMs, w.LatenessMs, early), true
}

func (c *compiler) stateWindow(b *built, in *edge, config window.Config) (text string, ok bool) {
	run := b.spec.Window.State
	s := window.StateConfig{Config: config, Begin: c.expression("window state", run.Begin, in.scope, condition)}
	if s.Begin == nil {
		return "", false
	}
	b.programs = append(b.programs, s.Begin)
	text = "state " + s.Begin.String()
	if run.End.Value != "" {
		if s.End = c.expression("window state", run.End, in.scope, condition); s.End == nil {
			return "", false
		}
		b.programs = append(b.programs, s.End)
		text += " end " + s.End.String()
	}
	b.validate, b.new = s.Validate, func() pipeline.Operator { return window.NewStateWindow(s) }
	return text, true
}

// contents compiles what a window computes: aggregates or its top rows.
func (c *compiler) contents(b *built, t *table, in *edge, keys []key, config *window.Config) (text []string, ok bool) {
	if b.spec.Top != nil {
		return c.top(b, t, in, keys, config)
	}
	ok = true
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
	return text, ok
}

// top compiles the rows that a window keeps: their columns are those of the rows that come in, as far as they are known.
func (c *compiler) top(b *built, t *table, in *edge, keys []key, config *window.Config) (text []string, ok bool) {
	spec := b.spec.Top
	source, descending, asc := direction(spec.Order)
	order := c.expression("top order", source, in.scope, nil)
	if order == nil {
		return nil, false
	}
	b.programs = append(b.programs, order)
	top := window.Top{N: spec.N, Order: order, Descending: descending, Ties: spec.Ties}
	if top.RankSlot, ok = c.column(t, columnRank, pipeline.Int, spec.Pos); !ok {
		return nil, false
	}
	for _, name := range in.scope.Names() {
		path, err := pipeline.ParsePath(name)
		if err != nil || strings.HasPrefix(name, "$") || isKey(keys, path) {
			continue
		}
		slot, kind, err := in.scope.Field(path)
		if err != nil {
			continue
		}
		out, good := c.column(t, columnName(path), kind, spec.Pos)
		if ok = ok && good; good {
			top.Columns, top.Out = append(top.Columns, slot), append(top.Out, out)
			text = append(text, "column "+path.String())
		}
	}
	if len(top.Columns) == 0 && ok {
		c.problems.Add(spec.Pos, "", "declare the fields of the source, or put a select step before", "%s: the columns of the rows are not known", stepName(b.spec))
		return nil, false
	}
	config.Top = &top
	return append(text, fmt.Sprintf("top %d %s %s ties %v", spec.N, order, asc, spec.Ties)), ok
}

func isKey(keys []key, p pipeline.Path) bool {
	for _, k := range keys {
		if k.path == p.String() {
			return true
		}
	}
	return false
}

// direction takes asc or desc off the end of an order.
func direction(order Text) (expression Text, descending bool, word string) {
	trimmed := strings.TrimSpace(order.Value)
	for _, word := range []string{"desc", "asc"} {
		if head, found := strings.CutSuffix(trimmed, " "+word); found {
			order.Value = head
			return order, word == "desc", word
		}
	}
	return order, false, "asc"
}

// ownTTL is a ttl set on the step itself. A window's state ends with the window: the pipeline's state.ttl would only drop
// windows that have not fired yet.
func ownTTL(s *StepSpec) int64 {
	if s.TTLNs == nil {
		return 0
	}
	return *s.TTLNs
}
