package state

import "encoding/binary"

// Large tells whether the entries lie in a Backing.
func (t *Table) Large() bool { return LargeBuilt && t.locked().large != nil }

// Walk calls f for the entries of a large Value table from a key on, in byte order, until f returns false. f may change the table: the walk is over
// what was there at its beginning. key and val are valid during the call.
func (t *Table) Walk(from []byte, f func(key, val []byte) bool) {
	l := t.ordered(Value)
	l.between(from, nil, func(place, rec []byte) bool { return f(place, rec[l.head():]) })
}

// WalkSub is Walk for the subkeys of one key of a large Map table: from <= sub < to.
func (t *Table) WalkSub(key, from, to []byte, f func(sub, val []byte) bool) {
	l := t.ordered(Map)
	lower := l.place(nil, key, from)
	n := len(lower) - len(from)
	upper := append(append([]byte(nil), lower[:n]...), to...)
	l.between(lower, upper, func(place, rec []byte) bool { return f(place[n:], rec[l.head():]) })
}

func (t *Table) ordered(kind Kind) *large {
	if t.large == nil || t.spec.Kind != kind {
		panic("BUG: state table " + t.spec.Name + " has no order")
	}
	return t.large
}

// between is walk for from <= place < to; to nil: to the end.
func (l *large) between(from, to []byte, f func(place, rec []byte) bool) {
	l.settle()
	l.flushFor(from, to)
	lower, upper := append(append([]byte(nil), l.entries...), from...), after(l.entries)
	if to != nil {
		upper = append(append([]byte(nil), l.entries...), to...)
	}
	it, err := l.db.Iter(lower, upper)
	l.must(err)
	open := true
	defer func() {
		if open { // f panicked, or the store failed
			_ = it.Close()
		}
	}()
	var rec []byte
	for ok := it.First(); ok; ok = it.Next() {
		val, err := it.Value()
		l.must(err)
		rec = append(append(rec[:0], 0), val...)
		if !l.over(rec) && !f(it.Key()[len(l.entries):], rec) {
			break
		}
	}
	open = false
	l.must(it.Close())
}

// AppendOrdered appends a signed number such that byte order is number order.
func AppendOrdered(dst []byte, v int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(v)^1<<63)
}

// Ordered is the inverse of AppendOrdered; b has 8 bytes or more.
func Ordered(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }
