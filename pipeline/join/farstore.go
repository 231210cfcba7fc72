package join

import (
	"bytes"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farStore holds the rows of both inputs where they do not fit the memory. The table's own order is that of the rows: (key, input, time, position,
// arrival). What it has in memory does not grow with keys or rows.
type farStore struct {
	*store
	// rows numbers those of one position, by key, as group does.
	rows map[string]uint32
	pos  pipeline.Position
	held pipeline.Position // the highest of a row that a checkpoint gave back
	from []byte            // scratch
	to   []byte
}

// beside gives the far store of a table that does not fit the memory, nil for another.
func (s *store) beside() *farStore {
	if !state.LargeBuilt || !s.table.Large() {
		return nil
	}
	return &farStore{store: s, rows: map[string]uint32{}}
}

// place is the subkey before all rows of an input from time on.
func place(dst []byte, side int, time int64) []byte {
	return state.AppendOrdered(append(dst, byte(side)), time)
}

// walk calls f for the rows of a key and an input with from <= time < to, in order, until f returns false. f may change the table. val is the entry,
// slots a part of it; both are valid during the call.
func (s *farStore) walk(key []byte, side int, from, to int64, f func(h held, val, slots []byte) bool) {
	lower, upper := place(nil, side, from), place(nil, side, to)
	if to == math.MaxInt64 {
		upper = []byte{byte(side) + 1}
	}
	s.table.WalkSub(key, lower, upper, func(sub, val []byte) bool {
		_, h, slots, err := parseHeld(sub, val)
		if err != nil {
			panic("BUG: a held row is not readable: " + err.Error())
		}
		return f(h, val, slots)
	})
}

// any tells whether a key has a row of an input with from <= time < to.
func (s *farStore) any(key []byte, side int, from, to int64) (found bool) {
	s.walk(key, side, from, to, func(held, []byte, []byte) bool {
		found = true
		return false
	})
	return found
}

// first is the earliest event time of a key's rows; ok: it has some.
func (s *farStore) first(key []byte) (time int64, ok bool) {
	for side := range s.widths {
		s.walk(key, side, math.MinInt64, math.MaxInt64, func(h held, _, _ []byte) bool {
			if !ok || h.time < time {
				time, ok = h.time, true
			}
			return false
		})
	}
	return time, ok
}

// add holds a row. It fails with state.ErrMaxKeys only, and changes nothing then.
func (s *farStore) add(key []byte, side int, r *pipeline.Row, values []pipeline.Value, matched bool, elapsed int64) (held, error) {
	fresh := r.Pos > s.held && r.Pos >= s.pos // its number is one that no other row has had
	if s.pos != r.Pos {
		s.pos = r.Pos
		if len(s.rows) > fewRows { // a map that was large stays so
			s.rows = map[string]uint32{}
		}
		clear(s.rows)
	}
	h := held{time: r.Time, pos: r.Pos, index: s.rows[string(key)], matched: matched, came: elapsed}
	s.sub = appendSub(s.sub[:0], side, h)
	s.entry = pipeline.AppendSlots(appendHead(s.entry[:0], h, s.ttl > 0), values)
	put := s.table.PutSub
	if fresh {
		put = s.table.InsertSub
	}
	if err := put(key, s.sub, s.entry); err != nil {
		return h, err
	}
	s.rows[string(key)] = h.index + 1
	return h, nil
}

// read gives the slots of a row held.
func (s *farStore) read(slots []byte, out *pipeline.Out) []pipeline.Value {
	values, err := out.ParseSlots(slots)
	if err != nil {
		panic("BUG: a held row is not readable: " + err.Error())
	}
	return values
}

// match notes that a row has a partner; val is its entry.
func (s *farStore) match(key []byte, side int, h held, val []byte) {
	if h.matched || s.fault.forgetsFar {
		return
	}
	s.entry = append(s.entry[:0], val...)
	s.entry[0] |= flagMatched
	s.sub = appendSub(s.sub[:0], side, h)
	if err := s.table.PutSub(key, s.sub, s.entry); err != nil {
		panic("BUG: a row that is there cannot be one too many: " + err.Error())
	}
}

// cut lets a row go.
func (s *farStore) cut(key []byte, side int, h held) {
	s.sub = appendSub(s.sub[:0], side, h)
	s.table.DeleteSub(key, s.sub)
}

// emptied forgets the numbers of a key that has no row any more, as a group in memory is forgotten.
func (s *farStore) emptied(key []byte) {
	if _, numbered := s.rows[string(key)]; !numbered {
		return
	}
	if _, ok := s.first(key); !ok {
		delete(s.rows, string(key))
	}
}

// restored checks what a checkpoint gave back, and calls f for each row, in the order of the table. key is valid during the call.
func (s *farStore) restored(f func(key []byte, side int, h held)) (err error) {
	scratch := pipeline.NewOut("", 0)
	scratch.Reuse = true
	s.table.Range(func(key, sub, val []byte) bool {
		var side int
		var h held
		if side, h, err = s.parse(sub, val, scratch); err != nil {
			return false
		}
		s.held = max(s.held, h.pos)
		f(key, side, h)
		return true
	})
	return err
}

// parse reads an entry and checks it whole.
func (s *store) parse(sub, val []byte, scratch *pipeline.Out) (side int, h held, err error) {
	side, h, slots, err := parseHeld(sub, val)
	if err != nil {
		return side, h, err
	}
	scratch.Reset()
	if values, bad := scratch.ParseSlots(slots); bad != nil || len(values) != s.widths[side] {
		return side, h, fmt.Errorf("%w: join row of %d bytes and %d slots, want %d", ErrState, len(val), len(values), s.widths[side])
	}
	if (val[0]&flagCame != 0) != (s.ttl > 0) {
		return side, h, fmt.Errorf("%w: join row with flags %d, ttl %d", ErrState, val[0], s.ttl)
	}
	return side, h, nil
}

// byKey calls f with each key and what each makes of its rows: begin for the first one, row for all, and end behind the last.
type byKey struct {
	key  []byte
	some bool
	end  func(key []byte)
}

// next tells that a row of a key comes; first: it is the key's first one.
func (b *byKey) next(key []byte) (first bool) {
	if b.some && bytes.Equal(b.key, key) {
		return false
	}
	b.done()
	b.key, b.some = append(b.key[:0], key...), true
	return true
}

func (b *byKey) done() {
	if b.some {
		b.end(b.key)
	}
	b.some = false
}
