package join

import (
	"encoding/binary"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// farInterval is an interval join whose rows do not fit the memory. Each has an entry in due: (instant, key, input, time, position, arrival), which is the
// order in which the watermark lets rows go; and with a ttl one in stays, which begins with the time of arrival.
type farInterval struct {
	*farStore
	due, stays *state.Queue
	entry, at  []byte // scratch
	// forgetsDue is a mistake planted by a test: when rows are due is not restored.
	forgetsDue bool
}

func (j *Interval) openFar(rows *farStore) {
	if !state.LargeBuilt || rows == nil {
		return
	}
	j.far = &farInterval{farStore: rows, due: rows.table.NewQueue(), forgetsDue: rows.fault.forgetsDue}
	if j.c.TTL > 0 {
		j.far.stays = rows.table.NewQueue()
	}
}

// queued is an entry of due or stays. Keys are prefix-free, so that byte order is that of (instant, key, place).
func queued(dst []byte, at int64, key []byte, side int, h held) []byte {
	return appendSub(append(state.AppendOrdered(dst, at), key...), side, h)
}

// parseQueued is its inverse; what the place does not tell is zero.
func parseQueued(b []byte) (at int64, key []byte, side int, h held) {
	key, sub := b[8:len(b)-subBytes], b[len(b)-subBytes:]
	h = held{
		time: state.Ordered(sub[1:]), pos: pipeline.Position(binary.BigEndian.Uint64(sub[9:])), index: binary.BigEndian.Uint32(sub[17:]),
	}
	return state.Ordered(b), key, int(sub[0]), h
}

// holds puts a row into the queues.
func (f *farInterval) holds(j *Interval, key []byte, side int, h held) {
	f.at = queued(f.at[:0], j.deadline(side, h.time), key, side, h)
	f.due.Add(f.at)
	if f.stays != nil {
		f.at = queued(f.at[:0], h.came, key, side, h)
		f.stays.Add(f.at)
	}
}

// lets takes a row out of the table and the queues.
func (f *farInterval) lets(j *Interval, key []byte, side int, h held) {
	f.cut(key, side, h)
	f.at = queued(f.at[:0], j.deadline(side, h.time), key, side, h)
	f.due.Remove(f.at)
	if f.stays != nil {
		f.at = queued(f.at[:0], h.came, key, side, h)
		f.stays.Remove(f.at)
	}
	f.emptied(key)
}

func (f *farInterval) restored(j *Interval) error {
	return f.farStore.restored(func(key []byte, side int, h held) {
		if !f.forgetsDue {
			f.holds(j, key, side, h)
		}
	})
}

// process joins a row whose key is j.key.
func (f *farInterval) process(j *Interval, side int, r *pipeline.Row, p pair, out *pipeline.Out) {
	held1, full := false, false
	add := func(matched bool) {
		h, err := f.add(j.key, side, r, p.sides[side], matched, out.Elapsed())
		if err != nil {
			out.Refuse(reasonMaxKeys, err.Error(), r)
			full = true
			return
		}
		held1 = true
		f.holds(j, j.key, side, h)
	}
	other := Right - side
	from, to := j.reach(side, r.Time)
	f.walk(j.key, other, from, to+1, func(h held, val, slots []byte) bool {
		if !held1 {
			if add(true); full {
				return false
			}
		}
		p.sides[other] = f.read(slots, out)
		if j.c.Type.keeps(other) {
			f.match(j.key, other, h, val)
		}
		j.emitter.emit(0, max(r.Time, h.time), p, out)
		return true
	})
	if !held1 && !full {
		add(false)
	}
}

// alone puts out a row that goes without having had a partner, and gives the row as it is held. ok is false when it is gone.
func (f *farInterval) alone(j *Interval, at, time int64, key []byte, side int, h held, out *pipeline.Out) (held, bool) {
	f.sub = appendSub(f.sub[:0], side, h)
	val, ok := f.table.GetSub(key, f.sub)
	if !ok {
		return h, false
	}
	_, h, slots, err := parseHeld(f.sub, val)
	if err != nil {
		panic("BUG: a held row is not readable: " + err.Error())
	}
	if !h.matched && j.c.Type.keeps(side) {
		out.SetTimer(at, 0, key)
		p := pair{}
		p.sides[side] = f.read(slots, out)
		j.emitter.emit(0, time, p, out)
	}
	return h, true
}

// watermark lets the rows go whose last instant it has passed.
func (f *farInterval) watermark(j *Interval, w int64, out *pipeline.Out) {
	f.entry = state.AppendOrdered(f.entry[:0], min(w, math.MaxInt64-1)+1)
	f.due.Drain(f.entry, func(b []byte) {
		due, key, side, h := parseQueued(b)
		h, ok := f.alone(j, due, due-1, key, side, h, out)
		if !ok {
			panic("BUG: a row is due that the table does not hold")
		}
		f.lets(j, key, side, h)
	})
}

// elapsed lets the rows go that have waited for so long as they may.
func (f *farInterval) elapsed(j *Interval, now int64, out *pipeline.Out) {
	if f.stays == nil {
		return
	}
	f.entry = state.AppendOrdered(f.entry[:0], now-f.ttl+1)
	f.stays.Drain(f.entry, func(b []byte) {
		came, key, side, h := parseQueued(b)
		h, ok := f.alone(j, came+f.ttl, j.deadline(side, h.time)-1, key, side, h, out)
		if !ok {
			panic("BUG: a row stays that the table does not hold")
		}
		f.lets(j, key, side, h)
	})
}

// expiring is the elapsed ns at which the ttl of a row is over next.
func (f *farInterval) expiring() int64 {
	if f.stays == nil {
		return pipeline.NoDeadline
	}
	if first := f.stays.First(); first != nil {
		return state.Ordered(first) + f.ttl
	}
	return pipeline.NoDeadline
}

// deadline is the watermark at which something happens next.
func (f *farInterval) deadline() int64 {
	if first := f.due.First(); first != nil {
		return state.Ordered(first)
	}
	return pipeline.NoDeadline
}
