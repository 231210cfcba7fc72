package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

// walk calls f for the records whose place begins with p, in order. What waits to be written is written before.
func (l *large) walk(p []byte, f func(place, rec []byte) bool) { l.walkFrom(p, p, f) }

// walkFrom is walk that begins at a place.
func (l *large) walkFrom(p, from []byte, f func(place, rec []byte) bool) {
	l.settle()
	upper := after(l.entries)
	if len(p) > 0 {
		upper = successor(append(append([]byte(nil), l.entries...), p...))
	}
	l.flushFor(from, upper[min(len(upper), len(l.entries)):])
	it, err := l.db.Iter(append(append([]byte(nil), l.entries...), from...), upper)
	l.must(err)
	var rec []byte
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.Value()
		l.must(err)
		rec = append(append(rec[:0], 0), val...)
		if !l.over(rec) && !f(it.Key()[len(l.entries):], rec) {
			break
		}
	}
	l.must(it.Close())
}

// successor is the lowest key behind all that begin with p. The table's number stands before: there is one.
func successor(p []byte) []byte {
	end := append([]byte(nil), p...)
	for end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	end[len(end)-1]++
	return end
}

// rangeAll is Range, in the order of keys.
func (l *large) rangeAll(f func(key, sub, val []byte) bool) {
	var scratch []byte
	l.walk(nil, func(place, rec []byte) bool {
		key, sub := l.split(scratch[:0], place)
		if l.t.spec.Kind == Map {
			scratch = key
		}
		return f(key, sub, rec[l.head():])
	})
}

// rangeSub is RangeSub of a Map table.
func (l *large) rangeSub(key []byte, f func(sub, val []byte) bool) {
	from := l.place(nil, key, nil)
	l.walk(from, func(place, rec []byte) bool { return f(place[len(from):], rec[l.head():]) })
}

// deleteGroup removes a key of a Map table with its subkeys.
func (l *large) deleteGroup(key []byte) (found bool) {
	l.settle()
	l.maintain()
	var places [][]byte
	l.walk(l.place(nil, key, nil), func(place, _ []byte) bool {
		places = append(places, bytes.Clone(place))
		return true
	})
	for _, p := range places {
		found = l.delete(p) || found
	}
	return found
}

// unstamped is the generation of a record whose time begins with the first SetNow.
const unstamped = math.MaxUint32

// load is LoadFrom; stamp is meant when stamped is set. With changed the entry goes to the next checkpoint.
func (l *large) load(key, sub, val []byte, stamp int64, stamped, changed bool) error {
	place := l.place(nil, key, sub)
	rec := binary.LittleEndian.AppendUint32(l.buf[:0], 0)
	if l.t.layout.ttl {
		if !stamped {
			l.restamp = true
			rec = binary.LittleEndian.AppendUint32(rec[:0], unstamped)
		}
		rec = binary.LittleEndian.AppendUint64(rec, uint64(stamp))
	}
	l.buf = append(rec, val...)
	if l.lastLoad != nil && bytes.Compare(place, l.lastLoad) <= 0 && l.twice(place) {
		return fmt.Errorf("%w: table %s: a key comes twice", ErrEntry, l.t.spec.Name)
	}
	l.loading, l.missed = true, nil
	l.lastLoad = append(l.lastLoad[:0], place...)
	if l.lastLoad == nil {
		l.lastLoad = []byte{}
	}
	l.key = append(append(l.key[:0], l.entries...), place...)
	if changed && (stamped || !l.t.layout.ttl) { // what has no time yet is marked with it
		binary.LittleEndian.PutUint32(l.buf, l.gen)
	}
	if err := l.batch.Set(l.key, l.buf); err != nil {
		return err
	}
	if changed && (stamped || !l.t.layout.ttl) {
		l.mark(place, l.gen)
		l.dirty++
	}
	if l.t.layout.ttl && stamped {
		l.expireAt(place, stamp)
		l.now = max(l.now, stamp)
	}
	l.live++
	if l.loads++; l.loads < changedMax {
		return nil
	}
	l.loads = 0
	return l.batch.Apply()
}

// twice tells whether a place was loaded before. Checkpoints come in order: it is asked of others only.
func (l *large) twice(place []byte) bool {
	l.must(l.batch.Apply())
	l.key = append(append(l.key[:0], l.entries...), place...)
	_, found, err := l.db.Get(nil, l.key)
	l.must(err)
	return found
}

// settle ends a run of loads.
func (l *large) settle() {
	if !l.loading {
		return
	}
	l.loading = false
	l.must(l.batch.Apply())
	l.loads, l.lastLoad = 0, nil
	if l.restamp {
		l.restamp = false
		l.stampAll()
	}
}

// stampAll gives the records without a time the present one.
func (l *large) stampAll() {
	it, err := l.db.Iter(l.entries, after(l.entries))
	l.must(err)
	n := 0
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.Value()
		l.must(err)
		place, rec := it.Key()[len(l.entries):], append(append(l.buf[:0], 0), val...)
		if l.buf = rec; genOf(rec) != unstamped {
			continue
		}
		binary.LittleEndian.PutUint32(rec[genAt:], l.gen)
		binary.LittleEndian.PutUint64(rec[largeStampAt:], uint64(l.now))
		l.must(l.batch.Set(it.Key(), rec[1:]))
		l.mark(place, l.gen)
		l.dirty++
		l.expireAt(place, l.now)
		if n++; n%changedMax == 0 {
			l.must(l.batch.Apply())
		}
	}
	l.must(it.Close())
	l.must(l.batch.Apply())
}
