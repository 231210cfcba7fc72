package state

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
