package state

import (
	"bytes"
	"encoding/binary"
)

// largeList is a List table whose chunks lie in a Backing, one behind the other under (key, number): the entries, and so the checkpoints, are those of a
// list in memory. Which chunk is the newest of each list is written in a second large table, whose entries live as long as that
// chunk: it counts the lists. It is in no checkpoint and rebuilt by a scan after a restore.
type largeList struct {
	chunks, newest *Table
	loading        bool
	sub            [chunkNumber]byte // scratch
}

// newList makes an empty List table.
func (p *Pool) newList(spec Spec) *Table {
	t := &Table{spec: spec, layout: newLayout(spec)}
	of := Spec{Name: spec.Name, Kind: Map, TTL: spec.TTL}
	chunks := p.New(of)
	of.Kind = Value
	newest := p.New(of)
	newest.large.unmarked = true
	t.far = &largeList{chunks: chunks, newest: newest}
	return t
}

// append is Append.
func (x *largeList) append(t *Table, key, elem []byte) error {
	x.settle()
	size := uvarintBytes(len(elem)) + len(elem)
	number := uint64(0)
	if b, ok := x.newest.Get(key); ok {
		number = binary.BigEndian.Uint64(b)
		if old, ok := x.takes(key, number, size); ok {
			val, _, _ := x.chunks.UpsertSub(key, x.sub[:], old+size) // the table of chunks has no limit
			putElement(val[old:], elem)
			return nil
		}
		number++
	} else if t.full() {
		return ErrMaxKeys
	}
	val, _, _ := x.chunks.UpsertSub(key, binary.BigEndian.AppendUint64(x.sub[:0], number), size)
	putElement(val, elem)
	val, _, _ = x.newest.Upsert(key, chunkNumber)
	binary.BigEndian.PutUint64(val, number)
	return nil
}

// takes tells whether the chunk can grow by size, and how large it is: it is in no checkpoint, nor held by one, and as old as the element.
func (x *largeList) takes(key []byte, number uint64, size int) (old int, ok bool) {
	l := x.chunks.large
	l.settle()
	var scratch [128]byte
	id := l.find(l.place(scratch[:0], key, binary.BigEndian.AppendUint64(x.sub[:0], number)))
	if id == 0 || !l.there(l.cached(id)) {
		return 0, false
	}
	rec := l.cached(id)
	old = len(rec) - l.head()
	if l.t.layout.ttl && l.stamp(rec) != l.now {
		return old, false
	}
	return old, old+size <= listChunkBytes && (genOf(rec) > l.held || l.fault.appendsHeld)
}

// walk calls f for the chunks of a list that have not expired, in order. f may change the table.
func (x *largeList) walk(key []byte, f func(sub, val []byte) bool) {
	x.settle()
	l := x.chunks.large
	from := l.place(nil, key, nil)
	l.between(from, successor(from), func(place, rec []byte) bool { return f(place[len(from):], rec[l.head():]) })
}

// rangeList is RangeList.
func (x *largeList) rangeList(key []byte, f func(elem []byte) bool) {
	x.walk(key, func(_, val []byte) bool { return eachElement(val, f) })
}

// eachElement tells whether f wants more.
func eachElement(val []byte, f func(elem []byte) bool) bool {
	for len(val) > 0 {
		n := elementBytes(val)
		if !f(element(val)) {
			return false
		}
		val = val[n:]
	}
	return true
}

// rangeAll is Range.
func (x *largeList) rangeAll(f func(key, sub, val []byte) bool) {
	x.settle()
	x.chunks.large.rangeAll(func(key, _, val []byte) bool {
		return eachElement(val, func(elem []byte) bool { return f(key, nil, elem) })
	})
}

func (x *largeList) listLen(key []byte) (n int) {
	x.walk(key, func(_, val []byte) bool {
		n += elements(val)
		return true
	})
	return n
}

// dropFront is DropFront.
func (x *largeList) dropFront(key []byte, n int) (dropped int) {
	left := false
	x.walk(key, func(sub, val []byte) bool {
		if dropped == n {
			left = true
			return false
		}
		at, k := 0, 0
		for at < len(val) && dropped+k < n {
			at += elementBytes(val[at:])
			k++
		}
		dropped += k
		if at == len(val) {
			x.chunks.DeleteSub(key, sub)
			return true
		}
		x.shorten(key, sub, val[at:])
		left = true
		return false
	})
	if !left && dropped > 0 {
		x.newest.Delete(key)
	}
	return dropped
}

// shorten gives a chunk that is there another value and leaves it as old as it was.
func (x *largeList) shorten(key, sub, val []byte) {
	l := x.chunks.large
	place := l.place(nil, key, sub)
	stamp := int64(0)
	if l.t.layout.ttl {
		stamp = l.stamp(l.cached(l.find(place)))
	}
	_ = x.chunks.PutSub(key, sub, val) // the table of chunks has no limit
	if l.t.layout.ttl {
		binary.LittleEndian.PutUint64(l.cached(l.find(place))[largeStampAt:], uint64(stamp))
	}
}

func (x *largeList) delete(key []byte) bool {
	x.settle()
	found := x.newest.Delete(key)
	if found || x.chunks.spec.TTL > 0 { // what has expired may be there still
		x.chunks.Delete(key)
	}
	return found
}

func (x *largeList) setNow(elapsed int64) {
	x.chunks.SetNow(elapsed)
	x.settle()
	x.newest.SetNow(elapsed)
}

// settle ends a run of loads: which chunks are the newest is read off them, in the order of keys.
func (x *largeList) settle() {
	if !x.loading {
		return
	}
	x.loading = false
	l, newest := x.chunks.large, x.newest.large
	var key, number []byte
	stamp, some := int64(0), false
	put := func() {
		if some {
			newest.must(newest.load(key, nil, number, stamp, l.t.layout.ttl, false))
		}
	}
	l.settle()
	l.flush()
	newest.now = l.now
	l.walk(nil, func(place, rec []byte) bool {
		k, sub := l.split(nil, place)
		if some && !bytes.Equal(k, key) {
			put()
		}
		key, number, some = append(key[:0], k...), append(number[:0], sub...), true
		if l.t.layout.ttl {
			stamp = l.stamp(rec)
		}
		return true
	})
	put()
	newest.settle()
}
