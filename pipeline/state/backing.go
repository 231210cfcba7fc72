package state

import (
	"fmt"
	"sync/atomic"
)

// Backing is an ordered key-value store that holds the entries of large tables: what does not fit the memory. It is a cache of the
// state, not the truth: nothing in it has to survive a crash, since checkpoints do. Its methods may be called from several
// goroutines. Keys and values that are passed in are copied before a call returns.
type Backing interface {
	// Get appends the value of a key to dst.
	Get(dst, key []byte) (val []byte, found bool, err error)
	// Batch makes an empty batch, for one goroutine.
	Batch() Batch
	// Iter walks lower <= key < upper as of now.
	Iter(lower, upper []byte) (Iter, error)
	// Snapshot holds what was applied before, until it is closed.
	Snapshot() Snapshot
}

// Batch collects changes; Apply makes them visible all at once and empties it. The last change of a key counts.
type Batch interface {
	Set(key, val []byte) error
	Delete(key []byte) error
	// DeleteRange deletes from <= key < to. It also hits what was set before in this batch.
	DeleteRange(from, to []byte) error
	Apply() error
	Close() error
}

// Snapshot is a Backing as it was.
type Snapshot interface {
	Iter(lower, upper []byte) (Iter, error)
	Close() error
}

// Iter walks keys in byte order. First and SeekGE place it; key and value are valid until it moves or is closed. false from First,
// SeekGE or Next: there is no such key, or it failed; then Close gives the error.
type Iter interface {
	First() bool
	SeekGE(key []byte) bool
	Next() bool
	Key() []byte
	Value() ([]byte, error)
	Close() error
}

// BackingError is what a call on a large table panics with when the store beneath it fails: no answer would be right. Whoever runs the
// operator recovers it and fails the region; it is never a fault of the row. The restart rebuilds the table from the checkpoint.
type BackingError struct {
	Table string
	Err   error
}

func (e *BackingError) Error() string { return fmt.Sprintf("state table %s: %v", e.Table, e.Err) }
func (e *BackingError) Unwrap() error { return e.Err }

// Pool makes the large tables of one pipeline over one Backing and shares memory among them.
type Pool struct {
	backing Backing
	bytes   int64 // for hot entries, of all tables together
	least   int64 // for those of one table, however many there are
	tables  atomic.Int64
	last    atomic.Uint32
}

// NewPool shares bytes of memory for hot entries among the tables. Backing is empty, and nobody else's.
func NewPool(b Backing, bytes int64) *Pool {
	return &Pool{backing: b, bytes: bytes, least: min(bytes, hotBytesMin)}
}

// New makes an empty large table.
func (p *Pool) New(spec Spec) *Table {
	switch {
	case !LargeBuilt:
		return New(spec)
	case spec.Kind < Value || spec.Kind > List:
		panic("BUG: state table " + spec.Name + ": there is no such kind")
	case spec.Kind == List:
		return p.newList(spec)
	}
	t := &Table{spec: spec, layout: newLayout(spec), forget: plantedForget}
	t.large = newLarge(t, p)
	return t
}

const hotBytesMin = 64 << 10

// share is one table's part of the memory. A table that is made later makes it smaller.
func (p *Pool) share() int64 { return max(p.bytes/max(p.tables.Load(), 1), p.least) }

// number gives a key prefix that nobody else has.
func (p *Pool) number() uint32 { return p.last.Add(1) }
