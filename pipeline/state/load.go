package state

import (
	"encoding/binary"
	"fmt"
	"slices"
)

// stampBytes of last-write time end each encoded value of a table with TTL (FORMAT.md).
const stampBytes = 8

// Load puts an entry of a restored checkpoint, as Encode gave it under a spec that has a TTL if and only if this one has;
// it is clean. MaxKeys does not bind it: a restored table may hold more, and takes no new key until it holds less. Load
// moves now up to the entry's last write; TTL is judged rightly from the first SetNow on. ErrEntry: val cannot be an
// encoded one.
func (t *Table) Load(key, sub, val []byte) error { return t.LoadFrom(t.spec, key, sub, val) }

// LoadFrom is Load of an entry that Encode gave under another spec. Of a TTL that is new the time begins with the first
// SetNow; such entries are dirty, since their encoding changes.
func (t *Table) LoadFrom(written Spec, key, sub, val []byte) error {
	return t.loadFrom(written, key, sub, val, false)
}

// LoadChanged is Load of an entry that no checkpoint holds in this form: it goes to the next one. It is for entries that were written under an earlier
// version of the table's type, once they have the present form.
func (t *Table) LoadChanged(key, sub, val []byte) error {
	return t.loadFrom(t.spec, key, sub, val, true)
}

func (t *Table) loadFrom(written Spec, key, sub, val []byte, changed bool) error {
	if len(sub) > 0 && t.spec.Kind == Value {
		return fmt.Errorf("%w: table %s has no subkeys", ErrEntry, t.spec.Name)
	}
	var stamp int64
	if written.TTL > 0 {
		n := len(val) - stampBytes
		if n < 0 {
			return fmt.Errorf("%w: table %s: %d bytes, want %d or more", ErrEntry, t.spec.Name, len(val), stampBytes)
		}
		stamp = int64(binary.BigEndian.Uint64(val[n:]))
		val = val[:n]
	}
	if LargeBuilt && t.large != nil {
		return t.large.load(key, sub, val, stamp, written.TTL > 0, changed)
	}
	if t.spec.Kind == List {
		if err := t.loadChunk(sub, val); err != nil {
			return err
		}
	}
	if LargeBuilt && t.far != nil {
		t.far.loading = true
		return t.far.chunks.large.load(key, sub, val, stamp, written.TTL > 0, changed)
	}
	hash := hashOf(key, sub)
	if t.find(hash, key, sub) != 0 {
		return fmt.Errorf("%w: table %s: a key comes twice", ErrEntry, t.spec.Name)
	}
	ref := t.slab.alloc(capacity(t.layout.size(len(key), len(sub), len(val))))
	rec := t.slab.at(ref)
	t.layout.write(rec, key, sub, uint32(len(val)), nil)
	copy(t.layout.value(rec), val)
	id := t.index.insert(hash, ref)
	if changed {
		t.touch(t.index.entry(id), id)
	}
	switch t.spec.Kind {
	case List:
		t.linkChunk(id, rec, key)
		t.counted(key, elements(t.layout.value(rec)))
		t.loading = true
	case Map:
		t.live++
		t.link(id, rec, key)
	default:
		t.live++
	}
	if t.layout.ttl {
		t.loading = true
		if written.TTL > 0 {
			t.layout.setStamp(rec, stamp)
			t.loaded = append(t.loaded, stamp)
			t.now = max(t.now, stamp)
		} else {
			t.unstamped = append(t.unstamped, id)
		}
	}
	return nil
}

// seal ends a run of Loads: their stamps, which came in any order, are sorted (some 80 ms for 1M entries, once).
func (t *Table) seal() {
	if !t.loading {
		return
	}
	t.loading = false
	for _, id := range t.unstamped {
		e := t.index.entry(id)
		t.touch(e, id)
		t.layout.setStamp(t.slab.at(e.ref), t.now)
		t.loaded = append(t.loaded, t.now)
	}
	if t.spec.Kind == List {
		t.loaded = t.loaded[:0]
		t.sealLists()
		t.ages = ages{}
	}
	for _, p := range t.ages.pages {
		for _, r := range p.runs {
			for range r.n {
				t.loaded = append(t.loaded, r.stamp)
			}
		}
	}
	slices.Sort(t.loaded)
	t.ages = ages{}
	for _, stamp := range t.loaded {
		t.ages.add(stamp)
	}
	t.loaded, t.unstamped = nil, nil
	t.expire()
}
