package state

import (
	"encoding/binary"
	"sort"
	"sync"
)

// INTERIM: a map-based table behind the final interface, replaced by the slab.

// Table is owned by one task goroutine. The task holds Lock while it works on a batch; the snapshot encoder takes it
// for short chunks.
type Table struct {
	mu    sync.Mutex
	spec  Spec
	m     map[string][]byte
	dirty map[string]struct{}
	now   int64
}

func New(spec Spec) *Table {
	return &Table{spec: spec, m: map[string][]byte{}, dirty: map[string]struct{}{}}
}

func (t *Table) Spec() Spec { return t.spec }
func (t *Table) Lock()      { t.mu.Lock() }
func (t *Table) Unlock()    { t.mu.Unlock() }

// SetNow tells the table the journal's elapsed ns: TTL is judged by it.
func (t *Table) SetNow(elapsed int64) { t.now = elapsed }
func (t *Table) Len() int             { return len(t.m) }

func comp(key, sub []byte) string {
	b := binary.AppendUvarint(nil, uint64(len(key)))
	b = append(b, key...)
	return string(append(b, sub...))
}

func split(k string) (key, sub []byte) {
	n, w := binary.Uvarint([]byte(k))
	return []byte(k[w : w+int(n)]), []byte(k[w+int(n):])
}

// Get gives a read-only view of the value, valid until the next mutating call on the table.
func (t *Table) Get(key []byte) ([]byte, bool) { return t.GetSub(key, nil) }

// Put sets the value of a key.
func (t *Table) Put(key, val []byte) error { return t.PutSub(key, nil, val) }

// Upsert gives a writable view of size bytes for key, marked dirty, valid until the next call on the table. A new entry is
// zeroed and created is true; an entry of another size is resized, keeping the common prefix.
func (t *Table) Upsert(key []byte, size int) (val []byte, created bool, err error) {
	k := comp(key, nil)
	v, ok := t.m[k]
	if !ok && t.spec.MaxKeys > 0 && len(t.m) >= t.spec.MaxKeys {
		return nil, false, ErrMaxKeys
	}
	nv := make([]byte, size)
	copy(nv, v)
	t.m[k] = nv
	t.dirty[k] = struct{}{}
	return nv, !ok, nil
}

// Delete removes a key (of a Map table: with all its subkeys) and tells whether it was there.
func (t *Table) Delete(key []byte) bool {
	if t.spec.Kind == Map {
		found := false
		for k := range t.m {
			if kk, _ := split(k); string(kk) == string(key) {
				delete(t.m, k)
				t.dirty[k] = struct{}{}
				found = true
			}
		}
		return found
	}
	return t.DeleteSub(key, nil)
}

func (t *Table) GetSub(key, sub []byte) ([]byte, bool) { v, ok := t.m[comp(key, sub)]; return v, ok }

func (t *Table) PutSub(key, sub, val []byte) error {
	k := comp(key, sub)
	if _, ok := t.m[k]; !ok && t.spec.MaxKeys > 0 && len(t.m) >= t.spec.MaxKeys {
		return ErrMaxKeys
	}
	t.m[k] = append([]byte(nil), val...)
	t.dirty[k] = struct{}{}
	return nil
}

func (t *Table) DeleteSub(key, sub []byte) bool {
	k := comp(key, sub)
	_, ok := t.m[k]
	delete(t.m, k)
	t.dirty[k] = struct{}{}
	return ok
}

// Range calls f for every live entry in no particular order, until f returns false. f must not change the table.
func (t *Table) Range(f func(key, sub, val []byte) bool) {
	for k, v := range t.m {
		key, sub := split(k)
		if !f(key, sub, v) {
			return
		}
	}
}

// RangeSub calls f for the subkeys of one key in byte order.
func (t *Table) RangeSub(key []byte, f func(sub, val []byte) bool) {
	var ks []string
	for k := range t.m {
		if kk, _ := split(k); string(kk) == string(key) {
			ks = append(ks, k)
		}
	}
	sort.Strings(ks)
	for _, k := range ks {
		_, sub := split(k)
		if !f(sub, t.m[k]) {
			return
		}
	}
}

// Load puts an entry of a restored checkpoint; it is clean.
func (t *Table) Load(key, sub, val []byte) error {
	t.m[comp(key, sub)] = append([]byte(nil), val...)
	return nil
}

// Freeze takes everything changed since the last Freeze. The owner calls it at the barrier; it copies no value.
func (t *Table) Freeze() *Frozen {
	f := &Frozen{t: t}
	for k := range t.dirty {
		f.keys = append(f.keys, k)
		v, ok := t.m[k]
		if ok {
			v = append([]byte{}, v...)
		}
		f.vals = append(f.vals, v)
	}
	t.dirty = map[string]struct{}{}
	return f
}

// Frozen is the part of a table that changed before a barrier, as it was at the barrier.
type Frozen struct {
	t    *Table
	keys []string
	vals [][]byte
}

func (f *Frozen) Len() int { return len(f.keys) }

// Encode calls yield for each changed entry, once; deleted entries have val nil and deleted true. It may run in another
// goroutine than the owner's, takes the table's lock for short chunks, and calls yield outside of the lock; the slices
// are valid during the call only.
func (f *Frozen) Encode(yield func(key, sub, val []byte, deleted bool) error) error {
	for i, k := range f.keys {
		key, sub := split(k)
		if err := yield(key, sub, f.vals[i], f.vals[i] == nil); err != nil {
			return err
		}
	}
	return nil
}

// Commit says that the checkpoint is durable: old versions are freed.
func (f *Frozen) Commit() {}

// Abort merges the changes back, so that the next Freeze contains them (RULES 15).
func (f *Frozen) Abort() {
	f.t.mu.Lock()
	defer f.t.mu.Unlock()
	for _, k := range f.keys {
		f.t.dirty[k] = struct{}{}
	}
}
