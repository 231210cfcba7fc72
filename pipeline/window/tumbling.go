package window

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// LatePort is where a window puts the rows that came too late for it, once per row and window.
const LatePort = 1

// aggsMax bounds the aggregates of one window: their index is one byte of the state.
const aggsMax = 255

// TumblingConfig sets up tumbling windows [OffsetMs + k*SizeMs, OffsetMs + (k+1)*SizeMs) of event time.
type TumblingConfig struct {
	Key                          []int // slots of the rows that come in
	SizeMs, OffsetMs, LatenessMs int64
	Aggs                         []Agg
	// The rows that come out: Width slots; the key columns in KeyOut; the slots of window_start, window_end (ms) and
	// revision. -1 leaves a column out.
	Width                            int
	KeyOut                           []int
	StartSlot, EndSlot, RevisionSlot int
	MaxKeys                          int   // (window, key) pairs open at once; 0: no limit
	TTL                              int64 // elapsed ns since its last row after which a (window, key) is dropped unfired; 0: never
}

// Validate names the field that is wrong.
func (c TumblingConfig) Validate() error {
	switch {
	case c.SizeMs <= 0 || c.SizeMs > spanMax:
		return fmt.Errorf("%w: tumbling: size is %d ms, want 1 to %d", ErrConfig, c.SizeMs, int64(spanMax))
	case c.OffsetMs <= -c.SizeMs || c.OffsetMs >= c.SizeMs:
		return fmt.Errorf("%w: tumbling: offset is %d ms, want less than the size of %d ms", ErrConfig, c.OffsetMs, c.SizeMs)
	case c.LatenessMs < 0 || c.LatenessMs > spanMax:
		return fmt.Errorf("%w: tumbling: allowed_lateness is %d ms, want 0 to %d", ErrConfig, c.LatenessMs, int64(spanMax))
	case len(c.KeyOut) != len(c.Key):
		return fmt.Errorf("%w: tumbling: %d key columns for %d keys", ErrConfig, len(c.KeyOut), len(c.Key))
	case len(c.Aggs) > aggsMax:
		return fmt.Errorf("%w: tumbling: %d aggregates, want at most %d", ErrConfig, len(c.Aggs), aggsMax)
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: tumbling: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, c.MaxKeys, c.TTL)
	}
	for i, a := range c.Aggs {
		if err := a.validate(); err != nil {
			return fmt.Errorf("%w: tumbling: aggregate %d: %w", ErrConfig, i, err)
		}
	}
	return nil
}

// Tumbling is the operator of tumbling windows. A window fires when the watermark reaches its end; each row that comes
// within the allowed lateness fires it again at once, for its key. It is forgotten when the watermark reaches its end
// and the lateness; rows for it then go to LatePort.
type Tumbling struct {
	c         TumblingConfig
	assign    tumbling
	acc       *accumulators
	entries   *state.Table
	panes     panes
	open      int // entries, as far as Aged knows
	watermark int64
	key       []byte // window start and key, as in the table
	args      []pipeline.Value
	fault     fault
}

// fault is a mistake planted by a test, to show that the tests would find it.
type fault struct {
	again      bool // the watermark that is repeated after a restart fires windows again
	unmerged   bool // sessions that were joined stay beside the one that came of them
	stale      bool // a late row leaves the partial contents above its pane as they were
	kept       bool // windows that their TTL left nothing in wait to fire
	unsorted   bool // windows fire their keys in an order that is not that of the key bytes
	staleLinks bool // a late row leaves the links of its key as they were
}

// NewTumbling makes a tumbling window from a valid config.
func NewTumbling(c TumblingConfig) *Tumbling {
	acc := newAccumulators(c.Aggs)
	return &Tumbling{
		c: c, assign: tumbling{size: c.SizeMs, offset: c.OffsetMs}, acc: acc, args: make([]pipeline.Value, len(acc.args)),
		watermark: pipeline.MinWatermark,
	}
}

// Open implements pipeline.Operator.
func (t *Tumbling) Open(tables pipeline.Tables) (err error) {
	t.entries, err = tables.Table(state.Spec{
		Name: "acc", Kind: state.Value, Type: "window.acc", Version: 1, TTL: t.c.TTL, MaxKeys: t.c.MaxKeys,
	})
	if err != nil {
		return err
	}
	t.panes.index = t.entries.NewIndex()
	return t.acc.open(tables)
}

// Restored rebuilds the index of open windows. One with an entry that fired has fired, and so have those before it.
func (t *Tumbling) Restored() (err error) {
	t.entries.Range(func(key, _, val []byte) bool {
		var start int64
		if start, _, err = splitKey(key); err == nil && len(val) != t.acc.size {
			err = fmt.Errorf("%w: window entry of %d bytes, want %d", ErrState, len(val), t.acc.size)
		}
		if err == nil && binary.LittleEndian.Uint32(val) > 0 {
			t.watermark = max(t.watermark, start+t.c.SizeMs)
		}
		return err == nil
	})
	if err == nil {
		err = t.acc.restored()
	}
	if err != nil {
		return err
	}
	t.open = t.entries.Len()
	t.entries.Range(func(b, _, _ []byte) bool {
		start, key, _ := splitKey(b)
		t.panes.at(start, start+t.c.SizeMs, t.watermark).add(key)
		return true
	})
	return nil
}

// Process implements pipeline.Operator.
func (t *Tumbling) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if !assignable(r.Time) {
		detail := "the row's event time is too far off for a window"
		if r.Time == pipeline.NoTime {
			detail = "the row has no event time"
		}
		out.Refuse(reasonNoTime, detail, r)
		return
	}
	start := t.assign.start(r.Time)
	end := start + t.c.SizeMs
	if t.watermark >= end+t.c.LatenessMs {
		out.Counters.Late++
		if len(out.Ports) > LatePort {
			out.Forward(LatePort, r)
		}
		return
	}
	if t.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		t.entries.SetNow(out.Elapsed())
	}
	if refusal := t.acc.arguments(r.Slots, t.args); refusal != "" {
		out.Refuse(reasonExpression, refusal, r)
		return
	}
	t.key = appendStart(t.key[:0], start)
	for _, slot := range t.c.Key {
		t.key, _ = pipeline.AppendKey(t.key, r.Slots[slot]) // fails for an Error only, which never stands in a row
	}
	entry, created, err := t.entries.Upsert(t.key, t.acc.size)
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	if created {
		t.open++
		if t.c.TTL > 0 {
			t.acc.begin(t.cell(entry))
		}
		t.panes.at(start, end, t.watermark).add(t.key[startBytes:])
	}
	t.acc.add(t.cell(entry), t.args, place{r.Time, r.Pos})
	if t.watermark >= end {
		t.fire(start, t.key, entry, out)
		countFiring(entry)
	}
}

// Watermark fires the windows it has reached the end of and forgets those it has reached the end of lateness of.
func (t *Tumbling) Watermark(w int64, out *pipeline.Out) {
	t.watermark = max(t.watermark, w)
	for p := t.panes.due(w); p != nil; p = t.panes.due(w) {
		t.firePane(p, w < p.end+t.c.LatenessMs, out)
	}
	for p := t.panes.over(w, t.c.LatenessMs); p != nil; p = t.panes.over(w, t.c.LatenessMs) {
		t.forget(p)
		t.panes.reuse(p)
	}
	t.skip()
}

// Elapsed implements pipeline.Operator: these windows know event time only.
func (t *Tumbling) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (t *Tumbling) Timers() (elapsed, eventTime int64) {
	return pipeline.NoDeadline, t.panes.deadline()
}
