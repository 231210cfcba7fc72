package window

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// Config is what the operators of all kinds of windows but plain tumbling ones have in common. Times are in ms.
type Config struct {
	Key []int // slots of the rows that come in
	// LatenessMs is how long a window that fired still takes rows. EarlyMs: an open window comes out before its end, at multiples of this
	// since 1970, whenever rows were added since it last came out; 0: never.
	LatenessMs, EarlyMs int64
	Aggs                []Agg
	Top                 *Top // instead of Aggs
	// The rows that come out: Width slots; the key columns in KeyOut; the slots of window_start, window_end (ms) and
	// revision. -1 leaves a column out.
	Width                            int
	KeyOut                           []int
	StartSlot, EndSlot, RevisionSlot int
	MaxKeys                          int   // entries of state; 0: no limit
	TTL                              int64 // elapsed ns since its last row after which an entry is dropped unfired; 0: never
}

// Top keeps the first N rows of a window in the order of Order instead of aggregates.
type Top struct {
	N          int
	Order      *expr.Program
	Descending bool
	Ties       bool  // rows equal to the last of the N as well
	Columns    []int // slots of the rows that come in, in the order of Out
	Out        []int // slots of the rows that come out
	RankSlot   int   // slot of the rank, 1 to N; -1 leaves it out
}

// topMax bounds the rows that one window keeps, ties included.
const topMax = 1000

func (c Config) validate(kind string) error {
	switch {
	case c.LatenessMs < 0 || c.LatenessMs > spanMax:
		return fmt.Errorf("%w: %s: allowed_lateness is %d ms, want 0 to %d", ErrConfig, kind, c.LatenessMs, int64(spanMax))
	case c.EarlyMs < 0 || c.EarlyMs > spanMax:
		return fmt.Errorf("%w: %s: early is %d ms, want 0 to %d", ErrConfig, kind, c.EarlyMs, int64(spanMax))
	case len(c.KeyOut) != len(c.Key):
		return fmt.Errorf("%w: %s: %d key columns for %d keys", ErrConfig, kind, len(c.KeyOut), len(c.Key))
	case len(c.Aggs) > aggsMax:
		return fmt.Errorf("%w: %s: %d aggregates, want at most %d", ErrConfig, kind, len(c.Aggs), aggsMax)
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: %s: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, kind, c.MaxKeys, c.TTL)
	}
	for i, a := range c.Aggs {
		if a.Kind < CountRows || a.Kind >= aggKindEnd || a.Kind != CountRows && a.Arg == nil {
			return fmt.Errorf("%w: %s: aggregate %d, %s, is unknown or lacks its argument", ErrConfig, kind, i, a.Kind)
		}
	}
	if t := c.Top; t != nil {
		switch {
		case len(c.Aggs) > 0:
			return fmt.Errorf("%w: %s: top and aggregates exclude each other", ErrConfig, kind)
		case t.N < 1 || t.N > topMax:
			return fmt.Errorf("%w: %s: top keeps %d rows, want 1 to %d", ErrConfig, kind, t.N, topMax)
		case t.Order == nil || len(t.Columns) != len(t.Out):
			return fmt.Errorf("%w: %s: top has no order, or %d columns for %d slots", ErrConfig, kind, len(t.Out), len(t.Columns))
		}
	}
	return nil
}

// Every table of a window has keys of 8 bytes (a start, a pane, a number) and behind them pipeline.AppendKey of the row's key.

// base is the part of an operator that all kinds of windows have in common.
type base struct {
	c         Config
	acc       *accumulators
	top       *top // nil: aggregates
	watermark int64
	key       []byte // of an entry: 8 bytes and the row's key
	args      []pipeline.Value
	sided     bool  // some contents lie outside of the entries
	picks     []int // where in an entry are picked values, whose text does
	merges    int   // counted for a test: what a window costs
	fault     fault
}

func newBase(c Config) base {
	b := base{c: c, acc: newAccumulators(c.Aggs), watermark: pipeline.MinWatermark}
	b.args = make([]pipeline.Value, len(b.acc.args))
	for _, a := range b.acc.aggs {
		switch {
		case a.kind >= Min && a.kind <= Last:
			b.picks = append(b.picks, a.at)
		case a.kind == Distinct || a.kind == Collect || a.kind.family() == familyQuantiles:
			b.sided = true
		}
	}
	if c.Top != nil {
		b.sided = true
		b.top = newTop(*c.Top)
		b.args = make([]pipeline.Value, 1)
	}
	return b
}

// open declares the tables of what entries hold beside themselves.
func (b *base) open(tables pipeline.Tables) error {
	if b.top != nil {
		return b.top.open(tables)
	}
	return b.acc.open(tables)
}

// restored checks what a checkpoint gave back of them.
func (b *base) restored() error {
	if b.top != nil {
		return b.top.restored()
	}
	return b.acc.restored()
}

// evaluate prepares what a row adds; false: the row was refused.
func (b *base) evaluate(r *pipeline.Row, out *pipeline.Out) bool {
	refusal := ""
	if b.top != nil {
		refusal = b.top.arguments(r.Slots, b.args)
	} else {
		refusal = b.acc.arguments(r.Slots, b.args)
	}
	if refusal != "" {
		out.Refuse(reasonExpression, refusal, r)
	}
	return refusal == ""
}

// timed tells whether a row has a time that a window can be around; else it was refused.
func timed(r *pipeline.Row, out *pipeline.Out) bool {
	if assignable(r.Time) {
		return true
	}
	detail := "the row's event time is too far off for a window"
	if r.Time == pipeline.NoTime {
		detail = "the row has no event time"
	}
	out.Refuse(reasonNoTime, detail, r)
	return false
}

// keyOf sets b.key to 8 bytes that are the caller's and the row's key.
func (b *base) keyOf(head int64, r *pipeline.Row) {
	b.key = appendStart(b.key[:0], head)
	for _, slot := range b.c.Key {
		b.key, _ = pipeline.AppendKey(b.key, r.Slots[slot]) // fails for an Error only, which never stands in a row
	}
}

// late counts a row that a window no longer takes.
func late(r *pipeline.Row, out *pipeline.Out) {
	out.Counters.Late++
	if len(out.Ports) > LatePort {
		out.Forward(LatePort, r)
	}
}

// add puts a row's arguments into a cell.
func (b *base) add(c cell, r *pipeline.Row) {
	if b.top != nil {
		b.top.add(c, r, b.args[0])
		return
	}
	b.acc.add(c, b.args, place{time: r.Time, pos: r.Pos})
}

// begin must be called with each entry that is new where one may have gone by its TTL, which leaves its side behind.
func (b *base) begin(c cell) {
	if b.top != nil {
		b.top.forget(c)
		return
	}
	b.acc.begin(c)
}

func (b *base) forget(c cell) { b.begin(c) }

func (b *base) merge(dst, src cell) {
	b.merges++
	if b.top != nil {
		b.top.merge(dst, src)
		return
	}
	b.acc.merge(dst, src)
}

// put is merge into a cell that holds nothing yet: mostly a copy.
func (b *base) put(dst, src cell) {
	if !b.flat(src.entry) {
		b.merge(dst, src)
		return
	}
	copy(dst.entry[firingsBytes:], src.entry[firingsBytes:])
}

// flat tells whether nothing of a cell lies outside of its entry.
func (b *base) flat(entry []byte) bool {
	if b.sided {
		return false
	}
	for _, at := range b.picks {
		if isText(pipeline.Kind(entry[at])) {
			return false
		}
	}
	return true
}

// kept is the side of what is in checkpoints.
func (b *base) kept() *side {
	if b.top != nil {
		return b.top.kept
	}
	return &b.acc.state
}

// scratch makes a side for partial results, which no checkpoint sees.
func (b *base) scratch() *side {
	if b.top != nil {
		return b.top.partial
	}
	return b.acc.scratch()
}

// fire emits the rows of a window and key from a cell. time is that of the rows.
func (b *base) fire(w Span, revision uint32, key []byte, c cell, time int64, out *pipeline.Out) {
	if b.top != nil {
		b.top.each(c, out, func(rank int, row []byte) {
			slots := b.frame(w, revision, key, out)
			b.top.fill(slots, rank, row, out)
			out.Emit(0, time, slots)
		})
		return
	}
	slots := b.frame(w, revision, key, out)
	failed := ""
	for i, a := range b.c.Aggs {
		v := b.acc.result(i, c, out)
		if v.Kind == pipeline.Error && failed == "" {
			failed = a.Kind.String() + ": " + v.Str
		}
		slots[a.Slot] = v
	}
	if failed != "" {
		out.Refuse(reasonOverflow, failed, &pipeline.Row{At: out.At, Time: time, Slots: slots})
		return
	}
	out.Emit(0, time, slots)
}

// frame makes a row with the columns that all windows have.
func (b *base) frame(w Span, revision uint32, key []byte, out *pipeline.Out) []pipeline.Value {
	slots := out.Slots(b.c.Width)
	set := func(slot int, v pipeline.Value) {
		if slot >= 0 {
			slots[slot] = v
		}
	}
	set(b.c.StartSlot, pipeline.IntValue(w.Start))
	set(b.c.EndSlot, pipeline.IntValue(w.End))
	set(b.c.RevisionSlot, pipeline.IntValue(int64(revision)))
	for _, slot := range b.c.KeyOut {
		v, tail, err := out.KeyValue(key)
		if err != nil {
			panic("BUG: a window has a key that was never written: " + err.Error())
		}
		set(slot, v)
		key = tail
	}
	return slots
}
