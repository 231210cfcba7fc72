package state

import "sync"

// Table is owned by one task goroutine. The task holds Lock while it works on a batch; the snapshot encoder takes it
// for short chunks. All methods but Lock and Spec want the lock held where a Frozen of the table is in other hands.
//
// A call does bounded work besides what it is asked for: no rehash, no sweep, no copying of the table. What it is asked
// for costs in proportion to the value's size; Delete and RangeSub of a Map table in proportion to the key's subkeys.
type Table struct {
	mu     sync.Mutex
	spec   Spec
	layout layout
	index  index
	slab   slab
	ages   ages

	now     int64
	live    int // entries that are there at now
	expired int // entries past their TTL whose record is still held
	hand    uint32

	own        *dirtyList   // where a changed entry goes
	lists      []*dirtyList // that entries may point at, oldest first, own last
	listLast   uint32
	frozen     []*Frozen // neither committed nor aborted, oldest first
	frozenLast uint32

	groups  *Table // of a Map table: key -> first of its entries
	scratch []uint32

	loading   bool
	loaded    []int64  // stamps not yet in ages
	unstamped []uint32 // entries loaded from a table without TTL

	limit   *Limit // shared with the tables of other instances; nil: MaxKeys is this table's own
	ceiling int    // Limit.Apart: entries that this table may come to

	large *large     // not nil: the entries lie there, and of the fields above only mu, spec, layout, now, limit and those of frozen are in use
	far   *largeList // not nil: the lists lie there, and only spec, layout, now and limit are in use

	listKey     [chunkNumber]byte // scratch
	untracked   bool              // changes are in no checkpoint
	forget      bool              // planted fault: an abort gives nothing back
	appendsHeld bool              // planted fault: a chunk that a checkpoint has takes elements
}

// Ref is an entry's number. It stays the same until the entry is deleted or has expired, and is then given out again.
type Ref uint32

// New makes an empty table. It panics on a kind that does not exist.
func New(spec Spec) *Table {
	if spec.Kind < Value || spec.Kind > List {
		panic("BUG: state table " + spec.Name + ": there is no such kind")
	}
	t := &Table{spec: spec, layout: newLayout(spec), index: newIndex(), forget: plantedForget}
	t.openList()
	if spec.Kind != Value {
		t.groups = New(Spec{Name: spec.Name, Kind: Value})
		t.groups.untracked = true
	}
	return t
}

// NewScratch makes a table whose changes are in no checkpoint, for what is rebuilt from others.
func NewScratch(spec Spec) *Table {
	t := New(spec)
	t.untracked = true
	return t
}

func (t *Table) Spec() Spec { return t.spec }
func (t *Table) Lock()      { t.locked().mu.Lock() }
func (t *Table) Unlock()    { t.locked().mu.Unlock() }

// locked is the table whose lock it is: that which a Frozen knows.
func (t *Table) locked() *Table {
	if LargeBuilt && t.far != nil {
		return t.far.chunks
	}
	return t
}

// Len is the number of entries (of a Map table: of subkeys, of a List table: of lists) that have not expired. It does not depend on when the
// memory of expired ones is reclaimed.
func (t *Table) Len() int {
	if LargeBuilt && t.large != nil {
		return t.large.len()
	}
	if LargeBuilt && t.far != nil {
		t.far.settle()
		return t.far.newest.Len()
	}
	t.seal()
	return t.live
}

// find gives the entry of a key, 0 when it has none. It may be a tombstone or expired.
func (t *Table) find(hash uint32, key, sub []byte) uint32 {
	id := *t.index.head(t.index.bucket(hash))
	for id != 0 {
		e := t.index.entry(id)
		if e.hash == hash {
			k, s := t.layout.keys(t.slab.at(e.ref))
			if string(k) == string(key) && string(s) == string(sub) {
				return id
			}
		}
		id = e.next
	}
	return 0
}

// there tells whether a record is neither deleted nor expired.
func (t *Table) there(rec []byte) bool { return !dead(rec) && !t.over(rec) }

func (t *Table) wantSub(sub []byte) {
	switch {
	case t.spec.Kind == List:
		panic("BUG: state table " + t.spec.Name + ": a list is appended to")
	case len(sub) > 0 && t.spec.Kind != Map:
		panic("BUG: state table " + t.spec.Name + ": a subkey in a value table")
	}
}

// Get gives a read-only view of the value, valid until the next mutating call on the table.
func (t *Table) Get(key []byte) ([]byte, bool) { return t.GetSub(key, nil) }

// GetSub is Get for one subkey of a Map table.
func (t *Table) GetSub(key, sub []byte) ([]byte, bool) {
	if LargeBuilt && t.large != nil {
		return t.large.get(key, sub)
	}
	id := t.find(hashOf(key, sub), key, sub)
	if id == 0 {
		return nil, false
	}
	rec := t.slab.at(t.index.entry(id).ref)
	if !t.there(rec) {
		return nil, false
	}
	return t.layout.value(rec), true
}

// At gives read-only views of the key and value of an entry, valid until the next mutating call; nil when the entry is
// no longer there.
func (t *Table) At(ref Ref) (key, val []byte) {
	if LargeBuilt && t.large != nil {
		panic("BUG: a large table has no entry numbers")
	}
	if ref == 0 || uint32(ref) > t.index.last {
		return nil, nil
	}
	e := t.index.entry(uint32(ref))
	if e.ref == 0 {
		return nil, nil
	}
	rec := t.slab.at(e.ref)
	if !t.there(rec) {
		return nil, nil
	}
	key, _ = t.layout.keys(rec)
	return key, t.layout.value(rec)
}

// Put sets the value of a key. It fails with ErrMaxKeys only.
func (t *Table) Put(key, val []byte) error { return t.PutSub(key, nil, val) }

// PutSub is Put for one subkey of a Map table.
func (t *Table) PutSub(key, sub, val []byte) error {
	b, _, _, err := t.upsert(key, sub, len(val), false)
	if err == nil {
		copy(b, val)
	}
	return err
}

// InsertSub is PutSub for an entry that the caller knows to be new: a large table does not look for it in the store.
func (t *Table) InsertSub(key, sub, val []byte) error {
	if !LargeBuilt || t.large == nil {
		return t.PutSub(key, sub, val)
	}
	b, _, err := t.large.upsert(key, sub, len(val), false, true)
	if err == nil {
		copy(b, val)
	}
	return err
}

// Upsert gives a writable view of size bytes for key, marked dirty, valid until the next call on the table. A new entry is
// zeroed and created is true; an entry of another size is resized, keeping the common prefix, and zeroed behind it.
func (t *Table) Upsert(key []byte, size int) (val []byte, created bool, err error) {
	val, _, created, err = t.upsert(key, nil, size, true)
	return val, created, err
}

// UpsertSub is Upsert for one subkey of a Map table.
func (t *Table) UpsertSub(key, sub []byte, size int) (val []byte, created bool, err error) {
	val, _, created, err = t.upsert(key, sub, size, true)
	return val, created, err
}

// UpsertRef is Upsert that also tells the entry's number, for At.
func (t *Table) UpsertRef(key []byte, size int) (val []byte, ref Ref, created bool, err error) {
	if LargeBuilt && t.large != nil {
		panic("BUG: a large table has no entry numbers")
	}
	val, id, created, err := t.upsert(key, nil, size, true)
	return val, Ref(id), created, err
}

// upsert does not clear what lies behind the kept part when keep is false: the caller overwrites all of it.
func (t *Table) upsert(key, sub []byte, size int, keep bool) (val []byte, id uint32, created bool, err error) {
	if LargeBuilt && t.large != nil {
		val, created, err = t.large.upsert(key, sub, size, keep, false)
		return val, 0, created, err
	}
	t.wantSub(sub)
	t.maintain()
	hash := hashOf(key, sub)
	id = t.find(hash, key, sub)
	var rec []byte
	if id != 0 {
		rec = t.slab.at(t.index.entry(id).ref)
	}
	created = id == 0 || !t.there(rec)
	if created && t.full() {
		return nil, 0, false, ErrMaxKeys
	}
	linked := false // an expired entry is still in its key's list
	if id == 0 {
		ref := t.slab.alloc(capacity(t.layout.size(len(key), len(sub), size)))
		rec = t.slab.at(ref)
		t.layout.write(rec, key, sub, uint32(size), nil)
		id = t.index.insert(hash, ref)
		t.touch(t.index.entry(id), id)
	} else {
		e := t.index.entry(id)
		t.touch(e, id)
		linked = !dead(rec)
		rec = t.resize(e, rec, size, keep && !created)
		if created && linked {
			t.expired--
		}
	}
	t.aged(rec, created)
	val = t.layout.value(rec)
	if created {
		t.live++
		if keep {
			clear(val)
		}
		if t.groups != nil && !linked {
			t.link(id, rec, key)
		}
	}
	return val, id, created, nil
}

// resize gives the entry's record the value size asked for, in another place when its capacity changes. With keep the
// common prefix of the value stays, and the rest is zeroed.
func (t *Table) resize(e *entry, rec []byte, size int, keep bool) []byte {
	old := t.layout.value(rec)
	if uint32(size) == u32(rec, 0) {
		return rec
	}
	now := capacity(t.layout.sizeOf(rec))
	key, sub := t.layout.keys(rec)
	if want := capacity(t.layout.size(len(key), len(sub), size)); want != now {
		ref := t.slab.alloc(want)
		to := t.slab.at(ref)
		t.layout.write(to, key, sub, uint32(size), rec)
		t.discard(e.ref, now)
		e.ref, rec = ref, to
	} else {
		setU32(rec, 0, uint32(size))
	}
	if val := t.layout.value(rec); keep {
		clear(val[copy(val, old):])
	}
	return rec
}

// Delete removes a key (with all its subkeys, or its list) and tells whether it was there.
func (t *Table) Delete(key []byte) bool {
	switch t.spec.Kind {
	case Map:
		if LargeBuilt && t.large != nil {
			return t.large.deleteGroup(key)
		}
		return t.deleteGroup(key)
	case List:
		if LargeBuilt && t.far != nil {
			return t.far.delete(key)
		}
		return t.deleteList(key)
	}
	return t.DeleteSub(key, nil)
}

// DeleteSub removes one subkey of a Map table and tells whether it was there.
func (t *Table) DeleteSub(key, sub []byte) bool {
	t.wantSub(sub)
	if LargeBuilt && t.large != nil {
		return t.large.deleteSub(key, sub)
	}
	t.maintain()
	id := t.find(hashOf(key, sub), key, sub)
	if id == 0 {
		return false
	}
	rec := t.slab.at(t.index.entry(id).ref)
	if dead(rec) {
		return false
	}
	there := t.there(rec)
	t.kill(id)
	return there
}

// kill turns an entry that is no tombstone into one, which stays until a checkpoint that has it is committed.
func (t *Table) kill(id uint32) {
	e := t.index.entry(id)
	rec := t.slab.at(e.ref)
	if t.spec.Kind == List {
		t.unlinkChunk(rec)
	} else {
		t.uncount(rec)
		if t.groups != nil {
			t.unlink(id, rec)
		}
	}
	if t.untracked {
		t.discard(e.ref, capacity(t.layout.sizeOf(rec)))
		t.index.remove(id)
		return
	}
	t.touch(e, id)
	t.listOf(e.list).dead++
	now := capacity(t.layout.sizeOf(rec))
	key, sub := t.layout.keys(rec)
	if want := capacity(t.layout.size(len(key), len(sub), 0)); want != now {
		ref := t.slab.alloc(want)
		t.layout.write(t.slab.at(ref), key, sub, tombstone, nil)
		t.discard(e.ref, now)
		e.ref = ref
	} else {
		setU32(rec, 0, tombstone)
	}
}

// uncount takes an entry that goes out of the counts.
func (t *Table) uncount(rec []byte) {
	if t.over(rec) {
		t.expired--
		return
	}
	t.live--
	t.unaged(rec)
}

// Range calls f for every live entry in no particular order, until f returns false. Of a List table it is called for every element,
// without a subkey, those of one list in their order. f must not change the table.
func (t *Table) Range(f func(key, sub, val []byte) bool) {
	if LargeBuilt && t.large != nil {
		t.large.rangeAll(f)
		return
	}
	if LargeBuilt && t.far != nil {
		t.far.rangeAll(f)
		return
	}
	if t.spec.Kind == List {
		t.rangeLists(f)
		return
	}
	for id := uint32(1); id <= t.index.last; id++ {
		e := t.index.entry(id)
		if e.ref == 0 {
			continue
		}
		rec := t.slab.at(e.ref)
		if !t.there(rec) {
			continue
		}
		key, sub := t.layout.keys(rec)
		if !f(key, sub, t.layout.value(rec)) {
			return
		}
	}
}
