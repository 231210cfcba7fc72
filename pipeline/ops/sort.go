package ops

import (
	"container/heap"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// LatePort is where Sort puts rows that came too late to be in order.
const LatePort = 1

// SortConfig sets up a sort.
type SortConfig struct {
	MaxKeys int // rows held at once; 0: no limit
}

// Validate names the field that is wrong.
func (c SortConfig) Validate() error {
	if c.MaxKeys < 0 {
		return fmt.Errorf("%w: sort: max_keys is %d, want 0 or more", ErrConfig, c.MaxKeys)
	}
	return nil
}

// Sort holds rows until the watermark has passed their event time, which means that no earlier one is expected, and
// emits them in the order of (event time, position, arrival). A row whose time the watermark has passed already goes to
// LatePort at once and is counted. A row without event time is refused.
type Sort struct {
	c         SortConfig
	rows      *state.Table
	order     heldHeap
	far       *farRows // not nil: the order is there
	watermark int64
	// lastPos and lastIndex number the rows of one position. A checkpoint never divides a position.
	lastPos   pipeline.Position
	lastIndex uint32
	key       []byte
	entry     []byte
	// forgetsNext is a mistake planted by a test: see farRows.
	forgetsNext bool
}

// NewSort makes a sort from a valid config.
func NewSort(c SortConfig) *Sort { return &Sort{c: c, watermark: pipeline.MinWatermark} }

// Open implements pipeline.Operator.
func (s *Sort) Open(tables pipeline.Tables) (err error) {
	s.rows, err = tables.Table(state.Spec{
		Name: "rows", Kind: state.Value, Type: "ops.sort", Version: 1, MaxKeys: s.c.MaxKeys,
	})
	if err == nil && state.LargeBuilt && s.rows.Large() {
		s.far = &farRows{rows: s.rows, forgetsNext: s.forgetsNext}
	}
	return err
}

// Restored rebuilds the order of the rows held.
func (s *Sort) Restored() (err error) {
	scratch := pipeline.NewOut("", 0)
	scratch.Reuse = true
	s.rows.Range(func(key, _, val []byte) bool {
		var h held
		if h, err = parseHeld(key); err != nil {
			return false
		}
		if _, err = scratch.ParseSlots(val); err != nil {
			err = fmt.Errorf("%w: row of position %d: %w", ErrState, h.pos, err)
			return false
		}
		scratch.Reset()
		if state.LargeBuilt && s.far != nil {
			s.far.put(h)
		} else {
			s.order = append(s.order, h)
		}
		return true
	})
	heap.Init(&s.order)
	return err
}

// Process implements pipeline.Operator.
func (s *Sort) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	switch {
	case r.Time == pipeline.NoTime:
		out.Refuse(reasonNoTime, "the row has no event time to sort by", r)
		return
	case r.Time < s.watermark:
		out.Counters.Late++
		if len(out.Ports) > LatePort {
			out.Forward(LatePort, r)
		}
		return
	}
	if r.Pos != s.lastPos {
		s.lastPos, s.lastIndex = r.Pos, 0
	}
	h := held{time: r.Time, pos: r.Pos, index: s.lastIndex}
	s.key = h.appendKey(s.key[:0])
	s.entry = pipeline.AppendSlots(s.entry[:0], r.Slots)
	if err := s.rows.Put(s.key, s.entry); err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	s.lastIndex++
	if state.LargeBuilt && s.far != nil {
		s.far.put(h)
		return
	}
	heap.Push(&s.order, h)
}

// Watermark emits what it has passed.
func (s *Sort) Watermark(w int64, out *pipeline.Out) {
	s.watermark = max(s.watermark, w)
	if state.LargeBuilt && s.far != nil {
		s.far.take(w, func(h held, val []byte) { s.emit(h, val, out) })
		return
	}
	for len(s.order) > 0 && s.order[0].deadline() <= w {
		h := heap.Pop(&s.order).(held)
		s.key = h.appendKey(s.key[:0])
		val, ok := s.rows.Get(s.key)
		if !ok {
			panic("BUG: a row is in order that the table does not hold")
		}
		s.emit(h, val, out)
	}
}

// emit puts out a row and lets it go.
func (s *Sort) emit(h held, val []byte, out *pipeline.Out) {
	out.SetDeadline(h.deadline()) // before slots are taken
	slots, err := out.ParseSlots(val)
	if err != nil {
		panic("BUG: a held row is not readable: " + err.Error())
	}
	s.key = h.appendKey(s.key[:0])
	s.rows.Delete(s.key)
	out.Emit(0, h.time, slots)
}

// Elapsed implements pipeline.Operator: a sort knows event time only.
func (s *Sort) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (s *Sort) Timers() (elapsed, eventTime int64) {
	if state.LargeBuilt && s.far != nil {
		return pipeline.NoDeadline, s.far.deadline()
	}
	if len(s.order) == 0 {
		return pipeline.NoDeadline, pipeline.NoDeadline
	}
	return pipeline.NoDeadline, s.order[0].deadline()
}

// deadline is the first watermark behind the row's time: at the time itself equals may still come.
func (h held) deadline() int64 {
	if h.time == math.MaxInt64 {
		return h.time
	}
	return h.time + 1
}
