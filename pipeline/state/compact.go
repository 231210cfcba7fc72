package state

// Bounds of the tidying that one mutating call does besides its work. Together some 10 us at 1M keys out of cache.
const (
	compactBytes   = 4 << 10 // of records looked at; more than eight times what a small write can make dead
	compactRecords = 64
	reclaimEntries = 8
)

// maintain is called first in every mutating call: views given out before are void from here on.
func (t *Table) maintain() {
	t.seal()
	s := &t.slab
	if s.victim != 0 || s.dead > s.used/8+chunkBytes {
		t.compact()
	}
	if t.expired > t.live/8+expiredSlack {
		t.reclaim(reclaimEntries)
	}
}

// compact moves what lives in the victim chunk to the open one, a few records at a time. The chunk is given back when its
// last record has left.
func (t *Table) compact() {
	s := &t.slab
	if s.victim == 0 {
		s.victim, s.scan = s.sparsest(), 0
	}
	end := s.scan + compactBytes
	for n := 0; n < compactRecords && s.victim != 0 && s.scan < end; n++ {
		c := &s.chunks[s.victim]
		if s.scan >= c.end {
			panic("BUG: a chunk has more dead bytes than its records tell")
		}
		ref := s.victim<<chunkUnitBits | s.scan/unitBytes
		rec := c.mem[s.scan:]
		klen := u32(rec, klenAt)
		setU32(rec, klenAt, klen&^freedBit)
		size := t.layout.sizeOf(rec)
		full := capacity(size)
		s.scan += uint32(full)
		if klen&freedBit != 0 {
			continue
		}
		key, sub := t.layout.keys(rec)
		id := t.index.owner(hashOf(key, sub), ref)
		if id == 0 {
			continue
		}
		to := s.alloc(full)
		copy(s.at(to), rec[:size])
		t.index.entry(id).ref = to
		s.free(ref, full)
	}
}
