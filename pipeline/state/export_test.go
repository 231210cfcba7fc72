package state

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// ForgetDirty plants the fault "forget the dirty list of an aborted checkpoint".
func (t *Table) ForgetDirty() { t.forget = true }

// AppendHeld plants the fault "a chunk that a checkpoint has takes elements".
func (t *Table) AppendHeld() { t.appendsHeld = true }

// Tombstones counts the deleted entries still held, and the entries in all, by walking the chains.
func (t *Table) Tombstones() (tombstones, all int) {
	for id := uint32(1); id <= t.index.last; id++ {
		if e := t.index.entry(id); e.ref != 0 {
			all++
			if dead(t.slab.at(e.ref)) {
				tombstones++
			}
		}
	}
	return tombstones, all
}

// Expired counts the expired entries still held.
func (t *Table) Expired() int { return t.expired }

// SlabBytes are the bytes of records, dead ones among them, and the memory of the chunks.
func (t *Table) SlabBytes() (used, dead, memory int64) {
	for i := range t.slab.chunks {
		memory += int64(len(t.slab.chunks[i].mem))
	}
	return t.slab.used, t.slab.dead, memory
}

// Check verifies what the parts of the table tell of each other.
func (t *Table) Check() string {
	if t.large != nil {
		return t.CheckLarge()
	}
	if t.far != nil {
		return t.far.check()
	}
	t.seal()
	live, expired, used, aged := 0, 0, int64(0), 0
	for id := uint32(1); id <= t.index.last; id++ {
		e := t.index.entry(id)
		if e.ref == 0 {
			continue
		}
		rec := t.slab.at(e.ref)
		used += int64(capacity(t.layout.sizeOf(rec)))
		key, sub := t.layout.keys(rec)
		switch {
		case hashOf(key, sub) != e.hash:
			return "an entry's hash is not its key's"
		case t.find(e.hash, key, sub) != id:
			return "an entry is not found by its key"
		case t.index.owner(e.hash, e.ref) != id:
			return "an entry is not found by its record"
		case t.spec.Kind == List:
			// counted below, by list
		case t.over(rec):
			expired++
		case !dead(rec):
			live++
		}
	}
	if t.spec.Kind == List {
		var msg string
		if live, msg = t.checkLists(); msg != "" {
			return msg
		}
	}
	sums, fulls := 0, 0
	for i, p := range t.ages.pages {
		if len(p.runs) == 0 && i < len(t.ages.pages)-1 {
			return "an age page is empty"
		}
		n, full := 0, 0
		for j, r := range p.runs {
			n += r.n
			if r.n > 0 {
				full++
			}
			if j > 0 && p.runs[j-1].stamp >= r.stamp {
				return "ages are not sorted"
			}
		}
		if n != p.sum || full != p.full {
			return "an age page's sum is wrong"
		}
		sums += n
		fulls += full
	}
	aged = sums
	switch {
	case live != t.live || expired != t.expired:
		return "live or expired is miscounted"
	case t.layout.ttl && aged != live:
		return "ages do not count what lives"
	case used != t.slab.used-t.slab.dead:
		return "the slab's living bytes are miscounted"
	}
	if t.spec.Kind == List {
		return t.groups.Check()
	}
	if t.groups != nil {
		linked := 0
		t.groups.Range(func(key, _, _ []byte) bool {
			linked += len(t.group(key, true))
			return true
		})
		if linked != live+expired {
			return "the lists of subkeys do not hold what lives"
		}
		return t.groups.Check()
	}
	return ""
}

// check verifies chunks and newest against each other.
func (x *largeList) check() string {
	x.settle()
	for _, t := range []*Table{x.chunks, x.newest} {
		if msg := t.CheckLarge(); msg != "" {
			return msg
		}
	}
	lists := map[string]uint64{}
	msg := ""
	x.chunks.Range(func(key, sub, val []byte) bool {
		if len(sub) != chunkNumber || elements(val) == 0 {
			msg = "a chunk has no number or no elements"
			return false
		}
		if n := elements(val); n > 1 && len(val) > listChunkBytes {
			msg = "a chunk is too large"
		}
		lists[string(key)] = binary.BigEndian.Uint64(sub)
		return true
	})
	n := 0
	x.newest.Range(func(key, _, val []byte) bool {
		n++
		if number, ok := lists[string(key)]; !ok || number != binary.BigEndian.Uint64(val) {
			msg = "a list's newest chunk is another one"
		}
		return true
	})
	if n != len(lists) {
		msg = fmt.Sprintf("%d lists have chunks, %d have a newest one", len(lists), n)
	}
	return msg
}

// AppendHeldLarge plants the fault "a chunk that a checkpoint has takes elements" in a large table.
func (t *Table) AppendHeldLarge() { t.far.chunks.large.fault.appendsHeld = true }

// PlantOldMarkLists plants the fault "an entry that an earlier generation marked is not marked again" in a large table of lists.
func (t *Table) PlantOldMarkLists() { t.far.chunks.large.fault.oldMark = true }

// CheckLarge verifies what the hot entries and the Backing tell of each other: every record is there once, no expiry is missing.
func (t *Table) CheckLarge() string {
	l := t.large
	l.settle()
	if msg := l.hot.Check(); msg != "" {
		return "hot entries: " + msg
	}
	l.flush()
	for id := uint32(1); id <= l.hot.index.last; id++ {
		if l.hot.index.entry(id).ref == 0 {
			continue
		}
		place, _ := l.hot.layout.keys(l.hot.slab.at(l.hot.index.entry(id).ref))
		if b, found, err := l.db.Get(nil, append(append([]byte(nil), l.entries...), place...)); err != nil || !found || string(b) != string(l.cached(id)[1:]) {
			return "a hot entry is not as in the backing"
		}
	}
	expiries := map[string][]int64{}
	if l.expiries != nil {
		l.expiries.index.flush()
	}
	it, _ := l.db.Iter(l.expiry, after(l.expiry))
	for ok := it.First(); ok; ok = it.Next() {
		b := it.Key()[len(l.expiry):]
		stamp := int64(binary.BigEndian.Uint64(b) ^ 1<<63)
		if stamp < l.due {
			return "an expiry lies below due"
		}
		expiries[string(b[8:])] = append(expiries[string(b[8:])], stamp)
	}
	_ = it.Close()
	it, _ = l.db.Iter(l.entries, after(l.entries))
	n, msg := 0, ""
	for ok := it.First(); ok; ok = it.Next() {
		n++
		if l.t.layout.ttl {
			val, _ := it.Value()
			stamp, place := l.stamp(append([]byte{0}, val...)), string(it.Key()[len(l.entries):])
			if e := expiries[place]; len(e) == 0 || slices.Min(e) > stamp {
				msg = "a record has no expiry"
			}
		}
	}
	_ = it.Close()
	if n != l.live {
		msg = fmt.Sprintf("%d records, live is %d", n, l.live)
	}
	return msg
}

// HotBytes is the memory of the hot entries.
func (t *Table) HotBytes() int64 { return t.large.hotBytes() }

// Marks counts the marks of a large table, of all generations.
func (t *Table) Marks() (n int) {
	it, _ := t.large.db.Iter(t.large.marks, after(t.large.marks))
	for ok := it.First(); ok; ok = it.Next() {
		n++
	}
	_ = it.Close()
	return n
}

// PlantLateFlush plants the fault "what waits to be written is not in the snapshot of the barrier".
func (t *Table) PlantLateFlush() { t.large.fault.lateFlush = true }

// PlantOldMark plants the fault "an entry that an earlier generation marked is not marked again".
func (t *Table) PlantOldMark() { t.large.fault.oldMark = true }

// Records counts what a large table holds, expired records too.
func (t *Table) Records() int { return t.large.live }

// checkLists verifies the lists against their chunks, and counts those that are there.
func (t *Table) checkLists() (live int, msg string) {
	chunks := 0
	t.groups.Range(func(key, _, g []byte) bool {
		n, before := 0, uint32(0)
		var last []byte
		for id := u32(g, oldestAt); id != 0; before, id = id, u32(last, t.layout.sub+8) {
			rec := t.slab.at(t.index.entry(id).ref)
			k, _ := t.layout.keys(rec)
			switch {
			case string(k) != string(key):
				msg = "a chunk is in another key's list"
			case dead(rec):
				msg = "a list has a dead chunk"
			case u32(rec, t.layout.sub+4) != before:
				msg = "a list is not linked backwards as forwards"
			case last != nil && (t.number(last) >= t.number(rec) || t.layout.ttl && t.layout.stamp(last) > t.layout.stamp(rec)):
				msg = "a list's chunks are out of order"
			}
			if msg != "" {
				return false
			}
			n += elements(t.layout.value(rec))
			chunks++
			last = rec
		}
		if before != u32(g, newestAt) || n != int(u32(g, elementsAt)) {
			msg = "a list's end or count is wrong"
		}
		if t.there(last) {
			live++
		}
		return msg == ""
	})
	if tombs, all := t.Tombstones(); msg == "" && chunks != all-tombs {
		msg = "a chunk is in no list"
	}
	return live, msg
}

// ArenaBytes are the old versions that a checkpoint keeps.
func ArenaBytes(f *Frozen) int64 { return f.arena.used }

// PlantLost plants the fault "a member that leaves the front is lost".
func (q *Queue) PlantLost() { q.lost = true }

// Front counts the members in memory.
func (q *Queue) Front() int { return len(q.front) }

// PlantBlindWalk has walks within a key not see what waits to be written.
func (t *Table) PlantBlindWalk() { t.large.fault.blindWalk = true }
