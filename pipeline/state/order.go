package state

// Index is an ordered map of byte strings that an operator keeps beside a large table where it would keep a heap or a list beside one in
// memory: its timers, the keys of its windows. It takes next to no memory. It is in no checkpoint: Restored makes it again. The task that owns
// the table owns it. A call panics with *BackingError when the store fails.
type Index struct {
	table   string
	db      Backing
	prefix  []byte
	batch   Batch
	waiting int
	key     []byte
}

// indexWaiting changes wait at most to be written together.
const indexWaiting = 1024

// NewIndex makes an empty index beside a large table; nil for a table in memory, whose operator keeps its own.
func (t *Table) NewIndex() *Index {
	l := t.locked().large
	if !LargeBuilt || l == nil {
		return nil
	}
	return &Index{table: t.spec.Name, db: l.db, prefix: prefix(l.pool.number(), 'i'), batch: l.db.Batch()}
}

// NewCache makes an empty Value table beside a large one, that shares its memory: for what can be made again from the table. It is in no checkpoint. nil for a table
// in memory.
func (t *Table) NewCache(name string) *Table {
	l := t.locked().large
	if !LargeBuilt || l == nil {
		return nil
	}
	c := l.pool.New(Spec{Name: name, Kind: Value})
	c.large.unmarked = true
	return c
}

func (x *Index) must(err error) {
	if err != nil {
		panic(&BackingError{Table: x.table, Err: err})
	}
}

func (x *Index) full(key []byte) []byte {
	x.key = append(append(x.key[:0], x.prefix...), key...)
	return x.key
}

// Set puts a key with a value, which may be nil.
func (x *Index) Set(key, val []byte) {
	x.must(x.batch.Set(x.full(key), val))
	x.changed()
}

// Delete removes a key, if it is there.
func (x *Index) Delete(key []byte) {
	x.must(x.batch.Delete(x.full(key)))
	x.changed()
}

// DeletePrefix removes the keys that begin with p, at once.
func (x *Index) DeletePrefix(p []byte) {
	from := x.full(p)
	x.must(x.batch.DeleteRange(from, successor(from)))
	x.changed()
}

func (x *Index) changed() {
	if x.waiting++; x.waiting >= indexWaiting {
		x.flush()
	}
}

func (x *Index) flush() {
	if x.waiting > 0 {
		x.waiting = 0
		x.must(x.batch.Apply())
	}
}

// Get gives the value of a key, appended to dst.
func (x *Index) Get(dst, key []byte) ([]byte, bool) {
	x.flush()
	val, found, err := x.db.Get(dst, x.full(key))
	x.must(err)
	return val, found
}

// Walk calls f for the keys from from on that begin with p, in byte order, until f returns false. f may change the index and its
// table: the walk is over what was there at its beginning. key is valid during the call.
func (x *Index) Walk(p, from []byte, f func(key []byte) bool) {
	x.flush()
	lower := append([]byte(nil), x.full(p)...)
	it, err := x.db.Iter(append([]byte(nil), x.full(from)...), successor(lower))
	x.must(err)
	open := true
	defer func() {
		if open { // f panicked
			_ = it.Close()
		}
	}()
	for ok := it.First(); ok && f(it.Key()[len(x.prefix):]); ok = it.Next() {
	}
	open = false
	x.must(it.Close())
}
