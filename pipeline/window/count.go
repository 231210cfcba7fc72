package window

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// CountConfig sets up count windows: after every Slide rows of a key, its last Size rows, or those there were so far (Flink's
// countWindow(size, slide)). Lateness and Early have no meaning and must be 0.
type CountConfig struct {
	Config
	Size, Slide int64
}

// countPanesMax bounds the pieces that a count window is made of: all of a key are one entry of the state.
const countPanesMax = 1000

// Validate names the field that is wrong.
func (c CountConfig) Validate() error {
	switch {
	case c.Size < 1 || c.Size > spanMax:
		return fmt.Errorf("%w: count: size is %d rows, want 1 to %d", ErrConfig, c.Size, int64(spanMax))
	case c.Slide < 1 || c.Slide > spanMax:
		return fmt.Errorf("%w: count: slide is %d rows, want 1 to %d", ErrConfig, c.Slide, int64(spanMax))
	case c.panes() > countPanesMax:
		return fmt.Errorf("%w: count: windows of %d rows by %d are made of %d pieces for each key, want at most %d: make the slide a larger part of the size",
			ErrConfig, c.Size, c.Slide, c.panes(), countPanesMax)
	case c.LatenessMs != 0 || c.EarlyMs != 0:
		return fmt.Errorf("%w: count: allowed_lateness and early are for windows of time", ErrConfig)
	}
	return c.Config.validate("count")
}

func (c CountConfig) pane() int64  { return AssignHopping(c.Size, c.Slide, 0).pane() }
func (c CountConfig) panes() int64 { return c.Size / c.pane() }

// CountWindow is the operator of count windows, in the order of arrival. Its rows have window_start and window_end around the times of the
// window's rows: the earliest, and the latest and 1. An unfinished window never comes out.
type CountWindow struct {
	base
	c       CountConfig
	pane, n int64
	entries *state.Table // key -> rows so far, and the last panes in a ring
	partial *side
	whole   []byte // scratch: contents of a window
	name    []byte // scratch: what text and lists lie under
}

// An entry is the count of rows, uint64, and n panes: bounds and contents.
const (
	countHeadBytes = 8
	boundsBytes    = 16 // earliest and latest time of the rows, ms
)

// NewCountWindow makes count windows from a valid config.
func NewCountWindow(c CountConfig) *CountWindow {
	o := &CountWindow{base: newBase(c.Config), c: c, pane: c.pane(), n: c.panes()}
	o.whole = make([]byte, o.paneBytes())
	return o
}

func (o *CountWindow) paneBytes() int  { return boundsBytes + o.acc.size }
func (o *CountWindow) entryBytes() int { return countHeadBytes + int(o.n)*o.paneBytes() }

// Open implements pipeline.Operator.
func (o *CountWindow) Open(tables pipeline.Tables) (err error) {
	o.entries, err = tables.Table(state.Spec{Name: "count", Kind: state.Value, Type: "window.count", Version: 1, TTL: o.c.TTL, MaxKeys: o.c.MaxKeys})
	if err != nil {
		return err
	}
	o.partial = o.scratch()
	return o.open(tables)
}

// Restored implements pipeline.Operator.
func (o *CountWindow) Restored() (err error) {
	o.entries.Range(func(key, _, val []byte) bool {
		if len(key) < startBytes || len(val) != o.entryBytes() || binary.LittleEndian.Uint64(val) > 1<<62 {
			err = fmt.Errorf("%w: count of %d bytes, want %d", ErrState, len(val), o.entryBytes())
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return o.restored()
}

// Process implements pipeline.Operator.
func (o *CountWindow) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if !o.evaluate(r, out) {
		return
	}
	if o.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		o.entries.SetNow(out.Elapsed())
	}
	o.keyOf(0, r)
	entry, _, err := o.entries.Upsert(o.key, o.entryBytes())
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	row := int64(binary.LittleEndian.Uint64(entry))
	slot := row / o.pane % o.n
	here := entry[countHeadBytes+int(slot)*o.paneBytes():][:o.paneBytes()]
	c := o.paneCell(slot, here)
	t := rowTime(r, out)
	if row%o.pane == 0 {
		clear(here)
		o.begin(c)
		putBounds(here, Span{t, t})
	} else {
		putBounds(here, Union(bounds(here), Span{t, t}))
	}
	o.add(c, r)
	row++
	binary.LittleEndian.PutUint64(entry, uint64(row))
	if row%o.c.Slide == 0 {
		o.fireLast(entry, row, r, out)
	}
}

// rowTime is the event time of a row, or when it came for want of one.
func rowTime(r *pipeline.Row, out *pipeline.Out) int64 {
	if r.Time == pipeline.NoTime {
		return out.Now.Wall
	}
	return r.Time
}

func bounds(b []byte) Span {
	return Span{int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))}
}

func putBounds(b []byte, s Span) {
	binary.LittleEndian.PutUint64(b, uint64(s.Start))
	binary.LittleEndian.PutUint64(b[8:], uint64(s.End))
}

func (o *CountWindow) paneCell(slot int64, pane []byte) cell {
	o.name = append(appendStart(o.name[:0], slot), o.key[startBytes:]...)
	return cell{side: o.kept(), key: o.name, entry: pane[boundsBytes:]}
}

// fireLast emits the window that ends with the row that makes it rows.
func (o *CountWindow) fireLast(entry []byte, rows int64, r *pipeline.Row, out *pipeline.Out) {
	first := max(0, rows-o.c.Size) / o.pane
	last := (rows - 1) / o.pane
	at := func(number int64) (int64, []byte) {
		slot := number % o.n
		return slot, entry[countHeadBytes+int(slot)*o.paneBytes():][:o.paneBytes()]
	}
	if first == last {
		slot, pane := at(last)
		o.emit(bounds(pane), o.paneCell(slot, pane), r, out)
		return
	}
	clear(o.whole)
	whole := cell{side: o.partial, key: []byte{0}, entry: o.whole[boundsBytes:]}
	o.forget(whole)
	_, pane := at(first)
	w := bounds(pane)
	for number := first; number <= last; number++ {
		slot, pane := at(number)
		w = Union(w, bounds(pane))
		o.merge(whole, o.paneCell(slot, pane))
	}
	o.emit(w, whole, r, out)
}

// emit fires a window whose rows have times from w.Start to w.End, both inclusive. Rows without event time make results without.
func (b *base) emit(w Span, c cell, r *pipeline.Row, out *pipeline.Out) {
	t := w.End
	if r.Time == pipeline.NoTime {
		t = pipeline.NoTime
	}
	b.fire(Span{w.Start, w.End + 1}, 0, b.key[startBytes:], c, t, out)
}

// Watermark implements pipeline.Operator: these windows know arrival only.
func (o *CountWindow) Watermark(int64, *pipeline.Out) {}

// Elapsed implements pipeline.Operator.
func (o *CountWindow) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (o *CountWindow) Timers() (elapsed, eventTime int64) {
	return pipeline.NoDeadline, pipeline.NoDeadline
}
