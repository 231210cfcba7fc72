package state

import (
	"bytes"
	"slices"
)

// The entries of one key of a Map table are a doubly linked list through their records; groups holds its first one.

const groupBytes = 4

// link puts a new entry at the front of its key's list.
func (t *Table) link(id uint32, rec, key []byte) {
	g, _, _ := t.groups.Upsert(key, groupBytes)
	first := u32(g, 0)
	setU32(g, 0, id)
	setU32(rec, t.layout.sub+4, 0)
	setU32(rec, t.layout.sub+8, first)
	if first != 0 {
		setU32(t.slab.at(t.index.entry(first).ref), t.layout.sub+4, id)
	}
}

func (t *Table) unlink(id uint32, rec []byte) {
	prev, next := u32(rec, t.layout.sub+4), u32(rec, t.layout.sub+8)
	if next != 0 {
		setU32(t.slab.at(t.index.entry(next).ref), t.layout.sub+4, prev)
	}
	if prev != 0 {
		setU32(t.slab.at(t.index.entry(prev).ref), t.layout.sub+8, next)
		return
	}
	key, _ := t.layout.keys(rec)
	if next == 0 {
		t.groups.Delete(key)
		return
	}
	g, _, _ := t.groups.Upsert(key, groupBytes)
	setU32(g, 0, next)
}

// group collects the entries of a key that are neither deleted nor, unless all is set, expired.
func (t *Table) group(key []byte, all bool) []uint32 {
	ids := t.scratch[:0]
	t.scratch = nil // f of RangeSub may read this table
	g, ok := t.groups.Get(key)
	if !ok {
		return ids
	}
	for id := u32(g, 0); id != 0; {
		rec := t.slab.at(t.index.entry(id).ref)
		if all || t.there(rec) {
			ids = append(ids, id)
		}
		id = u32(rec, t.layout.sub+8)
	}
	return ids
}

// deleteGroup removes a key with its subkeys.
func (t *Table) deleteGroup(key []byte) bool {
	t.maintain()
	found := false
	ids := t.group(key, true)
	for _, id := range ids {
		found = found || t.there(t.slab.at(t.index.entry(id).ref))
		t.kill(id)
	}
	t.scratch = ids
	return found
}

// RangeSub calls f for the subkeys of one key in byte order, until f returns false. f must not change the table.
func (t *Table) RangeSub(key []byte, f func(sub, val []byte) bool) {
	if LargeBuilt && t.large != nil && t.spec.Kind == Map {
		t.large.rangeSub(key, f)
		return
	}
	if t.groups == nil {
		if val, ok := t.Get(key); ok {
			f(nil, val)
		}
		return
	}
	t.rangeIDs(key, true, f)
}

// RangeSubUnordered is RangeSub in no particular order, which a restore may change: a sort cheaper.
func (t *Table) RangeSubUnordered(key []byte, f func(sub, val []byte) bool) {
	if t.groups == nil {
		t.RangeSub(key, f)
		return
	}
	t.rangeIDs(key, false, f)
}

func (t *Table) rangeIDs(key []byte, sorted bool, f func(sub, val []byte) bool) {
	ids := t.group(key, false)
	sub := func(id uint32) []byte {
		_, s := t.layout.keys(t.slab.at(t.index.entry(id).ref))
		return s
	}
	if sorted {
		slices.SortFunc(ids, func(a, b uint32) int { return bytes.Compare(sub(a), sub(b)) })
	}
	for _, id := range ids {
		if !f(sub(id), t.layout.value(t.slab.at(t.index.entry(id).ref))) {
			break
		}
	}
	t.scratch = ids
}
