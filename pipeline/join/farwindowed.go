package join

import (
	"encoding/binary"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farWindowed is a window join whose rows do not fit the memory. agenda has (end, start, key) of windows that are to fire, which is the order of
// firing:
//
//   - of windows that do not overlap, each that holds a row;
//   - of those that do, the next of each key, which groups tells: key -> (start of the next window, earliest event time, whether the table has it);
//   - of sessions, each; spans has them by key: (key, last event time, first one).
type farWindowed struct {
	*farStore
	agenda        *state.Queue
	groups, spans *state.Index
	at, entry     []byte // scratch
	rows          [][]pipeline.Value
	forgetsSpans  bool // planted by a test: sessions that become one are not forgotten
}

func (j *Windowed) openFar(rows *farStore) {
	if !state.LargeBuilt || rows == nil {
		return
	}
	f := &farWindowed{farStore: rows, agenda: rows.table.NewQueue(), forgetsSpans: rows.fault.forgetsSpans}
	switch {
	case j.c.Windows.GapMs > 0:
		f.spans = rows.table.NewIndex()
	case j.c.Windows.overlap():
		f.groups = rows.table.NewIndex()
	}
	j.far = f
}

// turn is an entry of the agenda.
func turn(dst []byte, end, start int64, key []byte) []byte {
	return append(state.AppendOrdered(state.AppendOrdered(dst, end), start), key...)
}

// ofKey begins an index key: the order of keys is of no matter, hence the length comes first and no key is another's prefix.
func ofKey(dst, key []byte) []byte {
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(key))), key...)
}

// farGroup is what groups has of a key.
type farGroup struct {
	next, first int64
	written     bool
}

func (f *farWindowed) group(key []byte) (g farGroup, ok bool) {
	f.at = ofKey(f.at[:0], key)
	val, ok := f.groups.Get(f.entry[:0], f.at)
	f.entry = val
	if !ok {
		return g, false
	}
	return farGroup{next: state.Ordered(val), first: state.Ordered(val[8:]), written: val[16] == 1}, true
}

func (f *farWindowed) put(key []byte, g farGroup) {
	f.entry = append(state.AppendOrdered(state.AppendOrdered(f.entry[:0], g.next), g.first), 0)
	if g.written {
		f.entry[16] = 1
	}
	f.at = ofKey(f.at[:0], key)
	f.groups.Set(f.at, f.entry)
}

// fires puts a window into the agenda.
func (f *farWindowed) fires(end, start int64, key []byte) {
	f.at = turn(f.at[:0], end, start, key)
	f.agenda.Add(f.at)
}

func (f *farWindowed) firesNot(end, start int64, key []byte) {
	f.at = turn(f.at[:0], end, start, key)
	f.agenda.Remove(f.at)
}

// holds takes note of a row that is held: open is the start of the first window that takes it.
func (f *farWindowed) holds(j *Windowed, key []byte, time, open int64) {
	w := j.c.Windows
	switch {
	case f.spans != nil:
		f.join(w, key, span{time, time})
	case f.groups == nil:
		f.fires(open+w.SizeMs, open, key)
	default:
		g, ok := f.group(key)
		before := g.next
		if !ok {
			g.next, g.first = open, time
		}
		g.next, g.first = min(g.next, open), min(g.first, time)
		if ok && g.next != before {
			f.firesNot(before+w.SizeMs, before, key)
		}
		if !ok || g.next != before {
			f.fires(g.next+w.SizeMs, g.next, key)
		}
		g.written = j.writeNext(key, g.next, g.next == w.first(g.first), g.written)
		f.put(key, g)
	}
}

// sessionEntry is an entry of spans.
func sessionEntry(dst, key []byte, s span) []byte {
	return state.AppendOrdered(state.AppendOrdered(ofKey(dst, key), s.last), s.first)
}

// sessions calls g for those of a key that do not end too far before t, in order.
func (f *farWindowed) sessions(w Windows, key []byte, t int64, g func(s span) bool) {
	p := ofKey(nil, key)
	n := len(p)
	first := t - w.GapMs
	if !w.Touching {
		first++
	}
	from := state.AppendOrdered(append([]byte(nil), p...), first)
	f.spans.Walk(p, from, func(b []byte) bool {
		return g(span{first: state.Ordered(b[n+8:]), last: state.Ordered(b[n:])})
	})
}

// touches tells whether a row of time t joins a session that is there.
func (f *farWindowed) touches(w Windows, key []byte, t int64) (yes bool) {
	f.sessions(w, key, t, func(s span) bool {
		yes = w.near(t, s.first)
		return false
	})
	return yes
}

// join adds a row to the sessions of its key: it may lengthen one, unite two, or begin one.
func (f *farWindowed) join(w Windows, key []byte, row span) {
	var gone []span
	f.sessions(w, key, row.first, func(s span) bool {
		if !w.near(row.last, s.first) {
			return false
		}
		row.first, row.last = min(row.first, s.first), max(row.last, s.last)
		gone = append(gone, s)
		return true
	})
	if len(gone) == 1 && gone[0] == row {
		return
	}
	for _, s := range gone {
		if f.forgetsSpans && len(gone) > 1 {
			break
		}
		f.drop(w, key, s)
	}
	f.begin(w, key, row)
}

func (f *farWindowed) begin(w Windows, key []byte, s span) {
	f.at = sessionEntry(f.at[:0], key, s)
	f.spans.Set(f.at, nil)
	f.fires(s.last+w.GapMs, s.first, key)
}

func (f *farWindowed) drop(w Windows, key []byte, s span) {
	f.at = sessionEntry(f.at[:0], key, s)
	f.spans.Delete(f.at)
	f.firesNot(s.last+w.GapMs, s.first, key)
}

// watermark fires the windows whose end it has reached.
func (f *farWindowed) watermark(j *Windowed, w int64, out *pipeline.Out) {
	to := state.AppendOrdered(nil, min(w, math.MaxInt64-1)+1)
	f.agenda.Drain(to, func(b []byte) {
		end, start, key := state.Ordered(b), state.Ordered(b[8:]), b[16:]
		out.SetTimer(end, start, key)
		f.fire(j, end, start, key, out)
	})
}

// fire emits a window of a key and lets the rows go that are in no later one.
func (f *farWindowed) fire(j *Windowed, end, start int64, key []byte, out *pipeline.Out) {
	w := j.c.Windows
	keep, behind := start+w.SlideMs, end // rows from keep on are in a later window, those from behind on are not in this one
	if f.spans != nil {
		s := span{start, end - w.GapMs}
		keep = s.last + 1
		behind = keep
		f.at = sessionEntry(f.at[:0], key, s)
		f.spans.Delete(f.at)
	}
	f.emit(j, key, start, behind, pair{start: start, end: end}, out)
	for side := range f.widths {
		f.walk(key, side, math.MinInt64, keep, func(h held, _, _ []byte) bool {
			f.cut(key, side, h)
			return true
		})
	}
	f.emptied(key)
	if f.groups != nil {
		f.next(j, key, keep)
	}
}

// next puts the next of overlapping windows of a key into the agenda; rows before keep are gone.
func (f *farWindowed) next(j *Windowed, key []byte, keep int64) {
	w := j.c.Windows
	g, _ := f.group(key)
	var ok bool
	if g.first, ok = f.first(key); !ok {
		j.writeNext(key, 0, true, g.written)
		f.at = ofKey(f.at[:0], key)
		f.groups.Delete(f.at)
		return
	}
	g.next = max(keep, w.first(g.first))
	f.fires(g.next+w.SizeMs, g.next, key)
	g.written = j.writeNext(key, g.next, g.next == w.first(g.first), g.written)
	f.put(key, g)
}

// emit puts out what the rows of both inputs with from <= time < to make.
func (f *farWindowed) emit(j *Windowed, key []byte, from, to int64, p pair, out *pipeline.Out) {
	has := [2]bool{f.any(key, Left, from, to), f.any(key, Right, from, to)}
	for side := range has {
		if has[Right-side] || !j.c.Type.keeps(side) {
			continue
		}
		f.walk(key, side, from, to, func(_ held, _, slots []byte) bool {
			p.sides[side] = f.read(slots, out)
			j.emitter.emit(0, p.end-1, p, out)
			return true
		})
		p.sides[side] = nil
	}
	if !has[Left] || !has[Right] {
		return
	}
	f.rows = f.rows[:0]
	f.walk(key, Right, from, to, func(_ held, _, slots []byte) bool {
		f.rows = append(f.rows, f.read(slots, out))
		return true
	})
	f.walk(key, Left, from, to, func(_ held, _, slots []byte) bool {
		p.sides[Left] = f.read(slots, out)
		for _, right := range f.rows {
			p.sides[Right] = right
			j.emitter.emit(0, p.end-1, p, out)
		}
		return true
	})
	clear(f.rows)
}

// restored rebuilds agenda, groups and sessions, key by key: the table is in their order.
func (f *farWindowed) restored(j *Windowed) (err error) {
	w := j.c.Windows
	var g farGroup
	var spans []span
	keys := byKey{end: func(key []byte) {
		switch {
		case f.spans != nil:
			for _, s := range spans {
				f.begin(w, key, s)
			}
		case f.groups != nil:
			g.next = w.first(g.first)
			if next, ok, bad := j.savedNext(key); bad != nil {
				err = bad
			} else if ok {
				g.next, g.written = next, true
			}
			f.fires(g.next+w.SizeMs, g.next, key)
			f.put(key, g)
		}
	}}
	bad := f.farStore.restored(func(key []byte, _ int, h held) {
		if keys.next(key) {
			g, spans = farGroup{first: h.time}, spans[:0]
		}
		switch {
		case f.spans != nil:
			spans = w.join(spans, span{h.time, h.time})
		case f.groups != nil:
			g.first = min(g.first, h.time)
		default:
			start := w.first(h.time)
			f.fires(start+w.SizeMs, start, key)
		}
	})
	if bad != nil {
		return bad
	}
	keys.done()
	return err
}

// deadline is the watermark at which the next window fires.
func (f *farWindowed) deadline() int64 {
	if first := f.agenda.First(); first != nil {
		return state.Ordered(first)
	}
	return pipeline.NoDeadline
}
