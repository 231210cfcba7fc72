package state

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A List table keeps for each key a list that grows at its end and shrinks at its front. Elements lie in chunks, each an entry of
// its own under (key, number of the chunk): a chunk takes elements until it is full, until a checkpoint has it, or, with a TTL,
// until the clock goes on. So an element is written to one delta, once, however long the list is, and appending never
// copies an old version. The cost is a record per list and checkpoint; DESIGN.md weighs it.

const (
	// listChunkBytes: a chunk is full when it would grow beyond. It bounds what a drop at the front writes anew.
	listChunkBytes = 512
	chunkNumber    = 8 // bytes of a chunk's subkey

	// A list's entry in groups: its newest and oldest chunk, and how many elements they have, expired ones among them.
	newestAt, oldestAt, elementsAt = 0, 4, 8
	listBytes                      = 12

	reclaimChunks = 32 // looked at by each SetNow of a table with TTL
)

// Append puts an element at the end of a key's list. It fails with ErrMaxKeys only, when the list is new.
func (t *Table) Append(key, elem []byte) error {
	t.wantList()
	if LargeBuilt && t.far != nil {
		return t.far.append(t, key, elem)
	}
	t.maintain()
	size := uvarintBytes(len(elem)) + len(elem)
	var number uint64
	g, has := t.groups.Get(key)
	there := false
	if has {
		id := u32(g, newestAt)
		e := t.index.entry(id)
		rec := t.slab.at(e.ref)
		there = t.there(rec)
		if old := int(u32(rec, 0)); t.takes(e, rec, old+size) {
			putElement(t.layout.value(t.resize(e, rec, old+size, true))[old:], elem)
			t.counted(key, 1)
			return nil
		}
		number = t.number(rec) + 1
		if there && t.layout.ttl {
			t.ages.remove(t.layout.stamp(rec))
		}
	}
	if !there {
		if t.spec.MaxKeys > 0 && t.full() {
			return ErrMaxKeys
		}
		t.live++
	}
	if has {
		t.trim(key, 2)
	}
	putElement(t.addChunk(key, number, size), elem)
	t.counted(key, 1)
	return nil
}

// takes tells whether a chunk can grow to size: it is on no list that a checkpoint has, nor in a checkpoint already.
func (t *Table) takes(e *entry, rec []byte, size int) bool {
	if size > listChunkBytes || t.layout.ttl && t.layout.stamp(rec) != t.now {
		return false
	}
	if t.untracked || e.list == t.own.id || t.appendsHeld {
		return true
	}
	l := t.listOf(e.list)
	return l != nil && l.gen == nil // given back by an aborted checkpoint
}

// addChunk makes the newest chunk of a list and gives its value.
func (t *Table) addChunk(key []byte, number uint64, size int) []byte {
	sub := binary.BigEndian.AppendUint64(t.listKey[:0], number)
	hash := hashOf(key, sub)
	id := t.find(hash, key, sub)
	var rec []byte
	if id == 0 {
		ref := t.slab.alloc(capacity(t.layout.size(len(key), len(sub), size)))
		rec = t.slab.at(ref)
		t.layout.write(rec, key, sub, uint32(size), nil)
		id = t.index.insert(hash, ref)
		t.touch(t.index.entry(id), id)
	} else { // the tombstone of a list that was there before
		e := t.index.entry(id)
		t.touch(e, id)
		rec = t.resize(e, t.slab.at(e.ref), size, false)
	}
	if t.layout.ttl {
		t.layout.setStamp(rec, t.now)
		t.ages.add(t.now)
	}
	t.linkChunk(id, rec, key)
	return t.layout.value(rec)
}

// linkChunk puts a chunk into its list, by its number.
func (t *Table) linkChunk(id uint32, rec, key []byte) {
	g, _, _ := t.groups.Upsert(key, listBytes)
	older, newer := u32(g, newestAt), uint32(0)
	for older != 0 { // one step, except after a restore that gave chunks out of order
		before := t.slab.at(t.index.entry(older).ref)
		if t.number(before) < t.number(rec) {
			break
		}
		older, newer = u32(before, t.layout.sub+4), older
	}
	setU32(rec, t.layout.sub+4, older)
	setU32(rec, t.layout.sub+8, newer)
	t.join(g, older, id)
	t.join(g, id, newer)
}

// join makes two chunks neighbours; 0 is the end of the list.
func (t *Table) join(g []byte, older, newer uint32) {
	if older == 0 {
		setU32(g, oldestAt, newer)
	} else {
		setU32(t.slab.at(t.index.entry(older).ref), t.layout.sub+8, newer)
	}
	if newer == 0 {
		setU32(g, newestAt, older)
	} else {
		setU32(t.slab.at(t.index.entry(newer).ref), t.layout.sub+4, older)
	}
}

// unlinkChunk takes a chunk out of its list; with the last one the list is gone. Lists are emptied from the front, or by
// the TTL: hence a list that still counted as live was so by this chunk.
func (t *Table) unlinkChunk(rec []byte) {
	key, _ := t.layout.keys(rec)
	g, _, _ := t.groups.Upsert(key, listBytes)
	t.join(g, u32(rec, t.layout.sub+4), u32(rec, t.layout.sub+8))
	setU32(g, elementsAt, u32(g, elementsAt)-uint32(elements(t.layout.value(rec))))
	if u32(g, newestAt) != 0 {
		return
	}
	t.groups.Delete(key)
	if !t.over(rec) {
		t.live--
		t.unaged(rec)
	}
}

// counted adds n to the elements of a list that is there.
func (t *Table) counted(key []byte, n int) {
	g, _, _ := t.groups.Upsert(key, listBytes)
	setU32(g, elementsAt, uint32(int(u32(g, elementsAt))+n))
}

// oldest gives the oldest chunk of a list, 0 for none.
func (t *Table) oldest(key []byte) (id uint32, rec []byte) {
	g, ok := t.groups.Get(key)
	if !ok {
		return 0, nil
	}
	id = u32(g, oldestAt)
	return id, t.slab.at(t.index.entry(id).ref)
}

// trim frees up to n expired chunks at the front of a list.
func (t *Table) trim(key []byte, n int) {
	for ; n > 0; n-- {
		id, rec := t.oldest(key)
		if id == 0 || !t.over(rec) {
			return
		}
		t.kill(id)
	}
}

// DropFront removes up to n elements from the front of a list and tells how many there were to remove. The list is gone with its
// last element.
func (t *Table) DropFront(key []byte, n int) (dropped int) {
	t.wantList()
	if LargeBuilt && t.far != nil {
		return t.far.dropFront(key, n)
	}
	t.maintain()
	for dropped < n {
		id, rec := t.oldest(key)
		if id == 0 {
			return dropped
		}
		if t.over(rec) {
			t.kill(id)
			continue
		}
		val := t.layout.value(rec)
		at, k := 0, 0
		for at < len(val) && dropped+k < n {
			at += elementBytes(val[at:])
			k++
		}
		dropped += k
		if at == len(val) {
			t.kill(id)
			continue
		}
		e := t.index.entry(id)
		t.touch(e, id)
		copy(val, val[at:])
		t.resize(e, rec, len(val)-at, true)
		t.counted(key, -k)
	}
	return dropped
}

// ListLen is the number of elements of a key's list that have not expired.
func (t *Table) ListLen(key []byte) int {
	t.wantList()
	if LargeBuilt && t.far != nil {
		return t.far.listLen(key)
	}
	g, ok := t.groups.Get(key)
	if !ok {
		return 0
	}
	n := int(u32(g, elementsAt))
	for id := u32(g, oldestAt); id != 0; {
		rec := t.slab.at(t.index.entry(id).ref)
		if !t.over(rec) {
			break
		}
		n -= elements(t.layout.value(rec))
		id = u32(rec, t.layout.sub+8)
	}
	return n
}

// RangeList calls f for the elements of a key's list, the oldest first, until f returns false. f must not change the table.
func (t *Table) RangeList(key []byte, f func(elem []byte) bool) {
	t.wantList()
	if LargeBuilt && t.far != nil {
		t.far.rangeList(key, f)
		return
	}
	id, _ := t.oldest(key)
	for id != 0 {
		rec := t.slab.at(t.index.entry(id).ref)
		if t.there(rec) {
			for val := t.layout.value(rec); len(val) > 0; {
				n := elementBytes(val)
				if !f(element(val)) {
					return
				}
				val = val[n:]
			}
		}
		id = u32(rec, t.layout.sub+8)
	}
}

// rangeLists is Range of a List table.
func (t *Table) rangeLists(f func(key, sub, val []byte) bool) {
	more := true
	t.groups.Range(func(key, _, _ []byte) bool {
		t.RangeList(key, func(elem []byte) bool {
			more = f(key, nil, elem)
			return more
		})
		return more
	})
}

// deleteList removes a list and tells whether it was there.
func (t *Table) deleteList(key []byte) (found bool) {
	t.maintain()
	for {
		id, rec := t.oldest(key)
		if id == 0 {
			return found
		}
		found = found || t.there(rec)
		t.kill(id)
	}
}

// number is the subkey of a chunk.
func (t *Table) number(rec []byte) uint64 {
	_, sub := t.layout.keys(rec)
	return binary.BigEndian.Uint64(sub)
}

func (t *Table) wantList() {
	if t.spec.Kind != List {
		panic("BUG: state table " + t.spec.Name + " has no lists")
	}
}

// loadChunk checks what Load was given for a List table.
func (t *Table) loadChunk(sub, val []byte) error {
	if len(sub) != chunkNumber || len(val) == 0 {
		return fmt.Errorf("%w: table %s: a chunk of %d bytes under %d bytes of number", ErrEntry, t.spec.Name, len(val), len(sub))
	}
	for len(val) > 0 {
		n, w := binary.Uvarint(val)
		if w <= 0 || w > 1 && val[w-1] == 0 || n > uint64(len(val)-w) {
			return fmt.Errorf("%w: table %s: a chunk's element is cut", ErrEntry, t.spec.Name)
		}
		val = val[w+int(n):]
	}
	return nil
}

// sealLists counts the lists after a run of Loads: one is as old as its newest chunk.
func (t *Table) sealLists() {
	t.live = 0
	t.groups.Range(func(_, _, g []byte) bool {
		t.live++
		if t.layout.ttl {
			t.loaded = append(t.loaded, t.layout.stamp(t.slab.at(t.index.entry(u32(g, newestAt)).ref)))
		}
		return true
	})
}

// An element in a chunk: its length as uvarint, then its bytes.

func uvarintBytes(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

func putElement(dst, elem []byte) { copy(dst[binary.PutUvarint(dst, uint64(len(elem))):], elem) }

// elementBytes is the size of the first element of a chunk with its length.
func elementBytes(val []byte) int {
	n, w := binary.Uvarint(val)
	return w + int(n)
}

func element(val []byte) []byte {
	n, w := binary.Uvarint(val)
	return val[w : w+int(n) : w+int(n)]
}

// elements counts those of a chunk.
func elements(val []byte) (n int) {
	for ; len(val) > 0; n++ {
		val = val[elementBytes(val):]
	}
	return n
}
