package state

import (
	"encoding/binary"
	"math"
)

// upsert is Table.upsert of a large table. absent: the Backing has no such record.
func (l *large) upsert(key, sub []byte, size int, keep, absent bool) (val []byte, created bool, err error) {
	l.t.wantSub(sub)
	l.settle()
	l.maintain()
	var scratch [128]byte
	place := l.place(scratch[:0], key, sub)
	id := l.found(place, absent)
	if created = id == 0 || !l.there(l.cached(id)); created {
		if l.t.spec.MaxKeys > 0 && (l.t.limit != nil || l.live >= l.t.spec.MaxKeys) {
			if l.t.full() {
				return nil, false, ErrMaxKeys
			}
			id = l.found(place, absent) // full may have swept it away
		}
	}
	head := l.head()
	rec, id, added, err := l.hot.upsert(place, nil, head+size, true)
	if err != nil {
		panic("BUG: the hot entries of a large table are limited: " + err.Error())
	}
	if added {
		rec[0] = hotFresh | hotDeleted // as if it had been deleted
	}
	if created && keep {
		clear(rec[head:])
	}
	if rec[0]&hotDeleted != 0 {
		l.live++
		if l.t.layout.ttl {
			rec[0] |= hotExpiry
			l.owed = min(l.owed, l.now)
		}
	}
	rec[0] &^= hotDeleted
	if l.t.layout.ttl {
		binary.LittleEndian.PutUint64(rec[largeStampAt:], uint64(l.now))
	}
	l.touch(id, rec)
	return rec[head:], created, nil
}

// found is find; absent: only a deleted one may be in hot.
func (l *large) found(place []byte, absent bool) uint32 {
	if absent {
		return l.hot.find(hashOf(place, nil), place, nil)
	}
	return l.find(place)
}

// touch notes that a record changes: for the next checkpoint, and for the Backing.
func (l *large) touch(id uint32, rec []byte) {
	if genOf(rec) != l.gen && !l.unmarked && !(l.fault.oldMark && genOf(rec) != 0) {
		binary.LittleEndian.PutUint32(rec[genAt:], l.gen)
		rec[0] |= hotMark
		l.dirty++
	}
	rec[0] |= hotUsed
	if rec[0]&hotChanged == 0 {
		rec[0] |= hotChanged
		l.changed = append(l.changed, id)
		l.wait(id)
	}
}

func (l *large) deleteSub(key, sub []byte) bool {
	l.settle()
	l.maintain()
	var scratch [128]byte
	return l.delete(l.place(scratch[:0], key, sub))
}

// delete is DeleteSub of a large table, by place.
func (l *large) delete(place []byte) bool {
	id := l.find(place)
	if id == 0 {
		return false
	}
	rec := l.cached(id)
	if rec[0]&hotDeleted != 0 {
		return false
	}
	there := l.there(rec)
	l.kill(id, rec)
	return there
}

// kill makes a record of hot a deleted one. Its value stays until it is written.
func (l *large) kill(id uint32, rec []byte) {
	l.live--
	l.touch(id, rec)
	rec[0] |= hotDeleted
	rec[0] &^= hotExpiry
}

// flush writes what was changed to the Backing.
func (l *large) flush() {
	if len(l.changed) == 0 {
		return
	}
	h := l.hot
	for _, id := range l.changed {
		raw := h.slab.at(h.index.entry(id).ref)
		place, _ := h.layout.keys(raw)
		rec := h.layout.value(raw)
		if rec[0]&hotDeleted != 0 {
			l.flushDeleted(place, rec)
			h.kill(id)
			continue
		}
		l.key = append(append(l.key[:0], l.entries...), place...)
		l.must(l.batch.Set(l.key, rec[1:]))
		if rec[0]&hotMark != 0 {
			l.mark(place, genOf(rec))
		}
		if rec[0]&hotExpiry != 0 {
			l.expireAt(place, l.stamp(rec))
		}
		rec[0] &= hotUsed
	}
	l.must(l.batch.Apply())
	l.changed, l.owed = l.changed[:0], math.MaxInt64
	clear(l.waiting)
	l.missed = nil
}

func (l *large) flushDeleted(place, rec []byte) {
	if rec[0]&hotFresh != 0 && rec[0]&hotMark != 0 {
		l.dirty-- // no checkpoint has heard of it: neither has the Backing
		return
	}
	if rec[0]&hotFresh == 0 {
		l.key = append(append(l.key[:0], l.entries...), place...)
		l.must(l.batch.Delete(l.key))
	}
	if rec[0]&hotMark != 0 {
		l.mark(place, genOf(rec))
	}
}

// mark says that an entry changed in a generation.
func (l *large) mark(place []byte, gen uint32) {
	l.key = append(binary.BigEndian.AppendUint32(append(l.key[:0], l.marks...), gen), place...)
	l.must(l.batch.Set(l.key, nil))
}

// maintain is called first in every mutating call: it bounds what waits to be written, and the memory.
func (l *large) maintain() {
	if len(l.changed) >= changedMax {
		l.flush()
	}
	if l.overdue() {
		l.reclaim(reclaimLarge)
	}
	if l.hotBytes() > l.pool.share() {
		l.evict()
	}
}

// evictEntries are looked at by a mutating call while there are too many: one comes per call.
const evictEntries = 8

// evict is a clock: what was not used since its last round goes.
func (l *large) evict() {
	h := l.hot
	for n := 0; n < evictEntries && h.index.used > 0; n++ {
		if l.hand++; l.hand > h.index.last {
			l.hand = 1
		}
		e := h.index.entry(l.hand)
		if e.ref == 0 {
			continue
		}
		rec := h.layout.value(h.slab.at(e.ref))
		switch {
		case rec[0]&hotUsed != 0:
			rec[0] &^= hotUsed
		case rec[0]&hotChanged != 0:
			l.flush()
			if e.ref != 0 { // not one that was deleted
				h.kill(l.hand)
			}
		default:
			h.kill(l.hand)
		}
	}
}
