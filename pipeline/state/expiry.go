package state

// Of a List table each chunk is such an entry, hence each element; a list counts as long as its newest chunk.
//
// An entry with TTL is absent from the moment that now - stamp >= TTL, whether its record is still held or not: reads, Len
// and MaxKeys depend on the calls of SetNow and on the writes alone. Its record becomes a tombstone, in steps, when
// enough of them have gathered, so that it leaves the memory and the checkpoint on flash as well.

// expiredSlack expired entries are left alone, and an eighth of the live ones: a sweep that seeks less costs more than it frees.
const expiredSlack = 64

// reclaimIdle entries are looked at by each SetNow.
const reclaimIdle = 64

// SetNow tells the table the journal's elapsed ns: TTL is judged by it. It never goes back: a lower value is ignored.
// It counts as a mutating call.
func (t *Table) SetNow(elapsed int64) {
	if LargeBuilt && t.large != nil {
		t.large.setNow(elapsed)
		return
	}
	t.now = max(t.now, elapsed)
	if LargeBuilt && t.far != nil {
		t.far.setNow(t.now)
		return
	}
	if !t.layout.ttl {
		return
	}
	t.seal()
	t.expire()
	switch {
	case t.spec.Kind == List:
		t.reclaim(reclaimChunks)
	case t.expired > t.live/8+expiredSlack:
		t.reclaim(reclaimIdle)
	}
}

func (t *Table) expire() {
	n := t.ages.expire(t.now - t.spec.TTL)
	t.live -= n
	if t.spec.Kind != List { // how many chunks of a list have expired is not counted
		t.expired += n
	}
}

// over tells whether a record's TTL has passed.
func (t *Table) over(rec []byte) bool {
	return t.layout.ttl && t.layout.stamp(rec) <= t.now-t.spec.TTL && !dead(rec)
}

// aged stamps a record that is written.
func (t *Table) aged(rec []byte, created bool) {
	if !t.layout.ttl {
		return
	}
	if !created {
		if t.layout.stamp(rec) == t.now {
			return
		}
		t.ages.remove(t.layout.stamp(rec))
	}
	t.layout.setStamp(rec, t.now)
	t.ages.add(t.now)
}

// unaged takes a live record that is deleted out of the count.
func (t *Table) unaged(rec []byte) {
	if t.layout.ttl {
		t.ages.remove(t.layout.stamp(rec))
	}
}

// reclaim looks at the next n entries and turns the expired ones into tombstones.
func (t *Table) reclaim(n int) {
	for ; n > 0 && (t.expired > 0 || t.spec.Kind == List); n-- {
		if t.hand++; t.hand > t.index.last {
			t.hand = 1
		}
		if t.index.last == 0 {
			return
		}
		e := t.index.entry(t.hand)
		if e.ref == 0 {
			continue
		}
		if rec := t.slab.at(e.ref); t.over(rec) {
			t.kill(t.hand)
		}
	}
}
