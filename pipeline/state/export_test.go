package state

// ForgetDirty plants the fault "forget the dirty list of an aborted checkpoint".
func (t *Table) ForgetDirty() { t.forget = true }

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
		case t.over(rec):
			expired++
		case !dead(rec):
			live++
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
