package window

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// HoppingConfig sets up hopping windows: every [OffsetMs + k*SlideMs, OffsetMs + k*SlideMs + SizeMs), k any integer.
type HoppingConfig struct {
	Config
	SizeMs, SlideMs, OffsetMs int64
}

func (c HoppingConfig) assigner() Assigner { return AssignHopping(c.SizeMs, c.SlideMs, c.OffsetMs) }

// Validate names the field that is wrong.
func (c HoppingConfig) Validate() error {
	if err := c.assigner().Validate(); err != nil {
		return fmt.Errorf("hopping: %w", err)
	}
	if c.TTL > 0 {
		return fmt.Errorf("%w: hopping: its panes end with their windows, it has no ttl", ErrConfig)
	}
	return c.Config.validate("hopping")
}

// Hopping is the operator of hopping windows, and of tumbling ones that come out early or keep their top rows. A row goes into one
// pane, whatever the number of windows it is in; a window that fires merges O(log) partial contents per key (series.go). Firing,
// lateness and late rows are those of Tumbling, per window: a row that is too late for some of its windows still counts in the others,
// and goes to LatePort once for each that it missed.
type Hopping struct {
	base
	assign             Assigner
	pane               int64
	entries            *state.Table // pane -> contents
	firings            *state.Table // window -> how often it fired; only with lateness or early
	forest             forest
	partial            *side
	series             serieses
	panes              timeline // their keys
	counted            timeline // windows with an entry in firings, and the keys of those
	early              earlies
	far                *farPanes // not nil: the keys of panes, counted and early lie there
	fired              int64     // windows that end at or before it have fired or were empty
	paneKey, windowKey []byte    // scratch
	places             []uint64
}

// never is the due of what does not come out early.
const never = math.MinInt64

// dueBytes is, with EarlyMs, the end of a pane's entry: when the windows around it come out early next, or never.
const dueBytes = 8

// NewHopping makes hopping windows from a valid config.
func NewHopping(c HoppingConfig) *Hopping {
	h := &Hopping{base: newBase(c.Config), assign: c.assigner(), fired: math.MinInt64}
	h.pane = h.assign.pane()
	h.forest = newForest(h.acc.size)
	h.series = newSerieses()
	return h
}

func (h *Hopping) entryBytes() int {
	if h.c.EarlyMs > 0 {
		return h.acc.size + dueBytes
	}
	return h.acc.size
}

func (h *Hopping) keepsFirings() bool { return h.c.EarlyMs > 0 || h.c.LatenessMs > 0 }

// Open implements pipeline.Operator.
func (h *Hopping) Open(tables pipeline.Tables) (err error) {
	h.entries, err = tables.Table(state.Spec{Name: "pane", Kind: state.Value, Type: "window.pane", Version: 1, MaxKeys: h.c.MaxKeys})
	if err == nil && h.keepsFirings() {
		h.firings, err = tables.Table(state.Spec{Name: "fired", Kind: state.Value, Type: "window.fired", Version: 1})
	}
	if err != nil {
		return err
	}
	h.far = newFarPanes(h.entries)
	h.openLinks()
	h.partial = h.scratch()
	return h.open(tables)
}

// Restored rebuilds the index of panes. What has fired follows from the watermark, which the engine repeats.
func (h *Hopping) Restored() (err error) {
	h.entries.Range(func(key, _, val []byte) bool {
		if len(key) < startBytes || len(val) != h.entryBytes() {
			err = fmt.Errorf("%w: pane of %d bytes, want %d", ErrState, len(val), h.entryBytes())
			return false
		}
		start, rest, _ := splitKey(key)
		if !assignable(start) || start != floorTo(start, h.pane, h.assign.offset) || h.c.EarlyMs > 0 && dueOf(val) != never && !assignable(dueOf(val)) {
			err = fmt.Errorf("%w: a pane begins at %d", ErrState, start)
			return false
		}
		if state.LargeBuilt && h.far != nil {
			h.restoreFar(start, rest, val)
			return true
		}
		id := h.series.of(rest)
		h.plant(start, id)
		if h.c.EarlyMs > 0 && dueOf(val) != never {
			h.early.add(dueOf(val), id, start)
		}
		return true
	})
	if h.firings != nil && err == nil {
		if state.LargeBuilt && h.far != nil {
			h.far.walk = h.far.byKey.Cursor()
			defer h.endWalk()
		}
		h.firings.Range(func(key, _, val []byte) bool {
			start, rest, bad := splitKey(key)
			if state.LargeBuilt && h.far != nil && bad == nil && len(val) == firingsBytes && assignable(start) && h.restoreCountedFar(start, rest) {
				return true
			}
			if id, ok := h.series.byKey[string(rest)]; ok && bad == nil && len(val) == firingsBytes && assignable(start) {
				h.counted.add(start, id)
			} else {
				err = fmt.Errorf("%w: a count of firings without a pane", ErrState)
			}
			return err == nil
		})
	}
	if err != nil {
		return err
	}
	return h.restored()
}

func dueOf(entry []byte) int64 { return int64(binary.LittleEndian.Uint64(entry[len(entry)-dueBytes:])) }

func setDue(entry []byte, due int64) {
	binary.LittleEndian.PutUint64(entry[len(entry)-dueBytes:], uint64(due))
}

// number is that of the pane with this start.
func (h *Hopping) number(start int64) uint64 { return bias((start - h.assign.offset) / h.pane) }

// startOf is its inverse.
func (h *Hopping) startOf(number uint64) int64 { return int64(number^1<<63)*h.pane + h.assign.offset }

// plant puts a new pane into the indexes.
func (h *Hopping) plant(start int64, id int32) {
	s := &h.series.list[id]
	s.root, s.leaf = h.forest.insert(s.root, h.number(start))
	s.at = h.number(start)
	s.panes++
	h.panes.add(start, id)
	if start < h.fired {
		h.series.activate(id)
	}
}

// Process implements pipeline.Operator.
func (h *Hopping) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if !timed(r, out) {
		return
	}
	last := h.assign.last(r.Time) + h.assign.size
	if last <= r.Time { // slide above size: the row lies between two windows
		out.Counters.Dropped++
		return
	}
	if h.watermark >= last+h.c.LatenessMs {
		h.missed(r, last, out)
		return
	}
	if !h.evaluate(r, out) {
		return
	}
	start := floorTo(r.Time, h.pane, h.assign.offset)
	h.keyOf(start, r)
	entry, created, err := h.entries.Upsert(h.key, h.entryBytes())
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	if created && h.c.EarlyMs > 0 {
		setDue(entry, never)
	}
	id := h.seriesOf(start, created)
	h.add(h.stateCell(h.key, entry), r)
	if !state.LargeBuilt || h.far == nil {
		h.touch(id, h.number(start))
	} else {
		h.dropLinks(start, h.key[startBytes:])
	}
	if h.c.EarlyMs > 0 {
		h.setEarly(entry, id, start, last, r.Time)
	}
	if first := h.firstEnd(r.Time); h.watermark >= first {
		h.missed(r, min(last, h.closed()), out)
		if state.LargeBuilt && h.far != nil {
			h.againFar(h.key[startBytes:], r.Time, last, out)
			return
		}
		h.again(id, r.Time, last, out)
	}
}

// seriesOf gives the series of h.key, whose pane has just been made where created says so; none when they lie elsewhere.
func (h *Hopping) seriesOf(start int64, created bool) (id int32) {
	switch {
	case !state.LargeBuilt || h.far == nil:
		id = h.series.of(h.key[startBytes:])
		if created {
			h.plant(start, id)
		}
	case created:
		h.noteFar(start, h.key[startBytes:])
	}
	return id
}

// touch makes the partial contents above a pane stale.
func (h *Hopping) touch(id int32, pane uint64) {
	s := &h.series.list[id]
	if s.at != pane || s.leaf == 0 {
		s.at, s.leaf = pane, h.forest.find(s.root, pane)
	}
	if !h.fault.stale {
		h.forest.stale(s.leaf)
		h.unfold(s, pane)
	}
}

func (h *Hopping) stateCell(key, entry []byte) cell {
	return cell{side: h.kept(), key: key, entry: entry[:h.acc.size]}
}

// firstEnd is the end of the first window of a time.
func (h *Hopping) firstEnd(t int64) int64 {
	return floorTo(t, h.assign.slide, h.assign.offset+h.assign.size) + h.assign.slide
}

// closed is the latest end of a window that takes no more rows.
func (h *Hopping) closed() int64 { return h.gridEnd(h.watermark - h.c.LatenessMs) }

// gridEnd is the latest end of a window at or before t.
func (h *Hopping) gridEnd(t int64) int64 {
	if t < math.MinInt64/2 {
		return math.MinInt64
	}
	return floorTo(min(t, math.MaxInt64/2), h.assign.slide, h.assign.offset+h.assign.size)
}

// emptied gives the partial contents of a node, empty.
func (h *Hopping) emptied(i int32) cell {
	key, contents := h.forest.contents(i)
	c := cell{side: h.partial, key: key, entry: contents}
	clear(contents)
	h.forget(c)
	return c
}

// contentsOf gives the contents of a node, making those of an inner one that are stale. Those of a pane are valid until the next call.
func (h *Hopping) contentsOf(s *series, i int32) cell {
	n := h.forest.nodes[i]
	if n.level == 0 {
		h.paneKey = append(appendStart(h.paneKey[:0], h.startOf(n.index)), s.key...)
		val, ok := h.entries.Get(h.paneKey)
		if !ok {
			panic("BUG: a pane is not in its table")
		}
		return h.stateCell(h.paneKey, val)
	}
	if n.valid {
		key, contents := h.forest.contents(i)
		return cell{side: h.partial, key: key, entry: contents}
	}
	h.settle(s, i)
	key, contents := h.forest.contents(i)
	return cell{side: h.partial, key: key, entry: contents}
}

// settle makes the contents of an inner node, its children's first.
func (h *Hopping) settle(s *series, i int32) {
	n := h.forest.nodes[i]
	if n.level == 0 || n.valid {
		return
	}
	h.settle(s, n.left)
	h.settle(s, n.right)
	c := h.emptied(i)
	h.put(c, h.contentsOf(s, n.left))
	h.merge(c, h.contentsOf(s, n.right))
	h.forest.nodes[i].valid = true
}

// Watermark fires the windows it has reached the end of, comes out early with others, and forgets panes whose windows are all over. In
// phase During it repeats what was known before a restart.
func (h *Hopping) Watermark(w int64, out *pipeline.Out) {
	h.watermark = max(h.watermark, w)
	if out.At.Phase == pipeline.During && !h.fault.again {
		h.fired = max(h.fired, h.gridEnd(w))
		if state.LargeBuilt && h.far != nil {
			h.coverFar(h.fired)
			return
		}
		h.panes.cover(h.fired, h.series.activate)
		return
	}
	for {
		end, due := h.nextEnd(), h.nextEarly()
		if at := min(end, due); at > w || at == pipeline.NoDeadline {
			break
		}
		if end <= due {
			h.fireWindow(Span{end - h.assign.size, end}, w, out)
			h.fired = end
			continue
		}
		h.fireEarly(due, out)
	}
	h.fired = max(h.fired, h.gridEnd(w))
	h.forgetOver(w)
}

// forgetOver deletes the panes whose windows take no more rows, and the counts of those windows.
func (h *Hopping) forgetOver(w int64) {
	if state.LargeBuilt && h.far != nil {
		h.forgetFar(w)
		return
	}
	for start, ok := h.counted.first(); ok && start+h.assign.size+h.c.LatenessMs <= w; start, ok = h.counted.first() {
		for _, id := range h.counted.take() {
			h.windowKey = append(appendStart(h.windowKey[:0], start), h.series.list[id].key...)
			h.firings.Delete(h.windowKey)
		}
	}
	for start, ok := h.panes.first(); ok && h.assign.last(start)+h.assign.size+h.c.LatenessMs <= w; start, ok = h.panes.first() {
		for _, id := range h.panes.take() {
			h.forgetPane(start, id)
		}
	}
}

func (h *Hopping) forgetPane(start int64, id int32) {
	s := &h.series.list[id]
	h.paneKey = append(appendStart(h.paneKey[:0], start), s.key...)
	_, none := h.forest.contents(0)
	h.forget(h.stateCell(h.paneKey, none))
	h.entries.Delete(h.paneKey)
	s.root = h.forest.remove(s.root, h.forest.find(s.root, h.number(start)))
	s.leaf = 0
	if s.panes--; s.panes == 0 {
		h.letGo(s)
	}
	h.series.release(id)
}

// Elapsed implements pipeline.Operator: these windows know event time only.
func (h *Hopping) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (h *Hopping) Timers() (elapsed, eventTime int64) {
	return pipeline.NoDeadline, min(h.nextEnd(), h.nextEarly())
}
