package window

import (
	"bytes"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farPanes is what Hopping knows of its panes when they lie in a large table: in memory are the starts of panes alone, not their keys. Of one key at a
// time the panes of a window are read into the forest, where their contents are merged in the very grouping of a key that stays there (fold.go), so
// that the last bit of a sum is the same. A firing goes on from what the one before has left (farlinks.go); one that is early or late reads each pane that the key has
// in the window.
type farPanes struct {
	byKey  *state.Index // key, start of a pane
	active *state.Index // keys that take part in the firings
	early  *state.Queue // due, start, key of panes with rows that have not come out
	around *state.Index // start of a window, key: what comes out early at once
	walk   *state.Cursor
	links  *state.Table // farlinks.go; nil: none are kept
	lazy   bool         // panes are planted as they are asked for
	entry  []byte       // scratch: of links
	name   []byte       // scratch
	key    []byte       // scratch: of what is walked over
	chunk  [][]byte
}

// farChunk keys of a table are read at once where the table is changed meanwhile.
const farChunk = 256

// lent is the series that the key under way has.
const lent = 0

func newFarPanes(t *state.Table) *farPanes {
	byKey := t.NewIndex()
	if byKey == nil {
		return nil
	}
	return &farPanes{byKey: byKey, active: t.NewIndex(), early: t.NewQueue(), around: t.NewIndex()}
}

// paneOf is the name of a pane in byKey. No key is the beginning of another, so that the panes of one stand together.
func (f *farPanes) paneOf(key []byte, start int64) []byte {
	f.name = appendStart(append(f.name[:0], key...), start)
	return f.name
}

func (f *farPanes) dueOf(due, start int64, key []byte) []byte {
	f.name = append(appendStart(appendStart(f.name[:0], due), start), key...)
	return f.name
}

// noteFar puts a new pane into the indexes.
func (h *Hopping) noteFar(start int64, key []byte) {
	h.far.byKey.Set(h.far.paneOf(key, start), nil)
	h.panes.note(start)
	if start < h.fired {
		h.far.active.Set(key, nil)
	}
}

// lend reads the panes of a key that begin in a span into the forest. giveBack comes behind what is done with them.
func (h *Hopping) lend(key []byte, w Span) {
	s := h.lentTo(key)
	from := h.far.paneOf(s.key, w.Start)
	if h.far.walk != nil {
		h.far.walk.Walk(s.key, from, func(b []byte) bool { return h.plantLent(s, b, w.End) })
		return
	}
	h.far.byKey.Walk(s.key, from, func(b []byte) bool { return h.plantLent(s, b, w.End) })
}

// lentTo gives a key the series of the key under way, which is empty.
func (h *Hopping) lentTo(key []byte) *series {
	if len(h.series.list) == 0 {
		h.series.list = make([]series, 1)
	}
	s := &h.series.list[lent]
	s.key = append(s.key[:0], key...)
	return s
}

func (h *Hopping) plantLent(s *series, name []byte, end int64) bool {
	start := startOf(name[len(s.key):])
	if start < end {
		s.root, _ = h.forest.insert(s.root, h.number(start))
	}
	return start < end
}

// giveBack empties the forest.
func (h *Hopping) giveBack() {
	s := &h.series.list[lent]
	for i := range h.forest.nodes {
		key, contents := h.forest.contents(int32(i))
		h.forget(cell{side: h.partial, key: key, entry: contents})
	}
	h.forest.reset()
	s.root, s.sides = 0, sides{left: s.sides.left[:0], right: s.sides.right[:0]}
}

// coverFar makes the keys of the panes before end take part in the firings.
func (h *Hopping) coverFar(end int64) {
	h.panes.coverStarts(end, func(start int64) {
		h.eachFar(h.entries, start, func(key []byte) { h.far.active.Set(key[startBytes:], nil) })
	})
}

// eachFar calls f for the keys of a table that begin with a start. f may change the table.
func (h *Hopping) eachFar(t *state.Table, start int64, f func(key []byte)) {
	p := appendStart(nil, start)
	from := bytes.Clone(p)
	for {
		h.far.chunk = t.KeysFrom(h.far.chunk[:0], p, from, farChunk)
		for _, key := range h.far.chunk {
			f(key)
		}
		n := len(h.far.chunk)
		if n < farChunk {
			return
		}
		from = append(append(from[:0], h.far.chunk[n-1]...), 0) // the next possible one
	}
}

// fireFar is fireWindow.
func (h *Hopping) fireFar(w Span, stays bool, out *pipeline.Out) {
	h.coverFar(w.End)
	h.far.walk = h.far.byKey.Cursor()
	defer h.endWalk()
	h.far.active.Walk(nil, nil, func(key []byte) bool {
		out.SetTimer(w.End, w.Start, key)
		if h.far.key = append(h.far.key[:0], key...); !h.fireLinked(h.far.key, w, stays, out) {
			h.far.active.Delete(h.far.key)
		}
		return true
	})
}

func (h *Hopping) endWalk() {
	walk := h.far.walk
	h.far.walk = nil
	walk.Close()
}

func (h *Hopping) fireLent(key []byte, w Span, stays bool, out *pipeline.Out) bool {
	h.lend(key, w)
	defer h.giveBack()
	return h.fireOne(lent, w, stays, out)
}

// againFar is again: the windows of a row that have fired but still take rows.
func (h *Hopping) againFar(key []byte, t, last int64, out *pipeline.Out) {
	first, to := h.againSpan(t, last)
	if first > to {
		return
	}
	h.lend(key, Span{first - h.assign.size, to})
	defer h.giveBack()
	h.again(lent, t, last, out)
}

// fireEarlyFar is fireEarly.
func (h *Hopping) fireEarlyFar(due int64, out *pipeline.Out) {
	f := h.far
	for m := f.early.First(); m != nil && startOf(m) == due; m = f.early.First() {
		start := startOf(m[startBytes:])
		f.key = append(f.key[:0], m[timerBytes:]...)
		f.early.Remove(m)
		h.cameEarly(start, f.key)
		for at := h.assign.last(start); at > start-h.assign.size && at+h.assign.size > due; at -= h.assign.slide {
			f.name = append(appendStart(f.name[:0], at), f.key...)
			f.around.Set(f.name, nil)
		}
	}
	f.walk = f.byKey.Cursor()
	defer h.endWalk()
	f.around.Walk(nil, appendStart(nil, due-h.assign.size), func(b []byte) bool { // before it is what came out earlier, and was deleted
		start := startOf(b)
		f.key = append(f.key[:0], b[startBytes:]...)
		out.SetTimer(due, start, f.key)
		h.fireLent(f.key, Span{start, start + h.assign.size}, true, out)
		f.name = append(appendStart(f.name[:0], start), f.key...)
		f.around.Delete(f.name)
		return true
	})
}

// forgetFar is forgetOver.
func (h *Hopping) forgetFar(w int64) {
	for start, ok := h.counted.first(); ok && start+h.assign.size+h.c.LatenessMs <= w; start, ok = h.counted.first() {
		h.counted.take()
		h.eachFar(h.firings, start, func(key []byte) { h.firings.Delete(key) })
	}
	for start, ok := h.panes.first(); ok && h.assign.last(start)+h.assign.size+h.c.LatenessMs <= w; start, ok = h.panes.first() {
		h.panes.take()
		_, none := h.forest.contents(0)
		h.eachFar(h.entries, start, func(key []byte) {
			h.forget(h.stateCell(key, none))
			h.entries.Delete(key)
			h.far.byKey.Delete(h.far.paneOf(key[startBytes:], start))
		})
	}
}

// restoreFar puts what a checkpoint holds of a pane into the indexes.
func (h *Hopping) restoreFar(start int64, key, entry []byte) {
	h.noteFar(start, key)
	if h.c.EarlyMs > 0 && dueOf(entry) != never {
		h.far.early.Add(h.far.dueOf(dueOf(entry), start, key))
	}
}

// restoreCountedFar checks that a counted window holds a pane of its key.
func (h *Hopping) restoreCountedFar(start int64, key []byte) (found bool) {
	h.far.walk.Walk(key, h.far.paneOf(key, math.MinInt64), func([]byte) bool {
		found = true
		return false
	})
	if found {
		h.counted.note(start)
	}
	return found
}
