//go:build !nopebble

package pebblekv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/weirstream/weir/pipeline/state"
)

// Built tells whether this binary has Pebble.
const Built = true

// DB is a state.Backing over one Pebble directory. Any goroutine may use it.
type DB struct {
	pebble  *pebble.DB
	files   *severed
	dir     string // "": in memory
	damaged atomic.Bool

	mu   sync.Mutex
	open map[*snapshot]bool // not closed yet
}

var _ state.Backing = (*DB)(nil)

// Open makes an empty store in Dir. While its disk is full or read-only it waits, and so does whoever writes, once the memory is full; Waits tells. After any other error of a write all calls
// give ErrFailed. What an earlier process left there is removed: it is a cache, and the checkpoint has the truth.
func Open(o Options) (*DB, error) {
	if o.Dir == "" {
		return nil, errors.New("open pebble: no directory")
	}
	return open(o, vfs.Default)
}

// OpenMem makes an empty store in memory, for tests.
func OpenMem(memory int64) (*DB, error) {
	return open(Options{Dir: "/state", MemoryBytes: memory}, vfs.NewMem())
}

func open(o Options, files vfs.FS) (*DB, error) {
	if err := files.RemoveAll(o.Dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("clear %s: %w", o.Dir, err)
	}
	background := seldom(o.Background)
	d := &DB{open: map[*snapshot]bool{}, files: newSevered(files)}
	d.files.waits = func(err error) bool {
		if !roomComes(err) {
			return false
		}
		if background != nil {
			background(err)
		}
		if o.Waiting != nil {
			o.Waiting()
		}
		return true
	}
	if files == vfs.Default {
		d.dir = o.Dir
	}
	opt := options(newCacheFS(d.files), o.MemoryBytes, func(err error) {
		if (errors.Is(err, ErrDamaged) || pebble.IsCorruptionError(err)) && d.files.err() == nil {
			d.damaged.Store(true)
		}
		if background != nil {
			background(err)
		}
	})
	opt.DisableWAL, opt.Comparer = true, comparer()
	var err error
	if d.pebble, err = pebble.Open(o.Dir, opt); err != nil {
		return nil, fmt.Errorf("open pebble in %s: %w", o.Dir, err)
	}
	if err := d.ended(); err != nil {
		return nil, errors.Join(fmt.Errorf("open pebble in %s: %w", o.Dir, err), d.Close())
	}
	return d, nil
}

// ended is why nothing is answered any more; nil: it is.
func (d *DB) ended() error {
	if cut := d.files.err(); cut != nil {
		return fmt.Errorf("%w: %w", ErrFailed, cut)
	}
	return nil
}

// Waits tells why a write waits just now, for space or until the disk can be written again; nil: none does.
func (d *DB) Waits() error {
	if e := d.files.waiting.Load(); e != nil && d.files.err() == nil {
		return *e
	}
	return nil
}

// Release ends the waiting: what waits for the disk, and all that follows, fails. For one who is about to close the store; to repeat it is harmless.
func (d *DB) Release() { d.files.sever(ErrClosed) }

// mapped gives an error of Pebble in our own terms.
func (d *DB) mapped(err error) error {
	if cut := d.ended(); cut != nil && err != nil {
		return cut
	}
	if err != nil && pebble.IsCorruptionError(err) {
		d.damaged.Store(true)
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// Get implements state.Backing.
func (d *DB) Get(dst, key []byte) ([]byte, bool, error) {
	if err := d.ended(); err != nil {
		return dst, false, err
	}
	v, closer, err := d.pebble.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return dst, false, nil
	}
	if err != nil {
		return dst, false, d.mapped(err)
	}
	dst = append(dst, v...)
	return dst, true, d.mapped(closer.Close())
}

// Batch implements state.Backing.
func (d *DB) Batch() state.Batch { return &batch{d: d, b: d.pebble.NewBatch()} }

// Iter implements state.Backing.
func (d *DB) Iter(lower, upper []byte) (state.Iter, error) {
	if err := d.ended(); err != nil {
		return nil, err
	}
	it, err := d.pebble.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, d.mapped(err)
	}
	return &iter{d: d, it: it, group: groupOf(lower, upper)}, nil
}

// Snapshot implements state.Backing.
func (d *DB) Snapshot() state.Snapshot {
	s := &snapshot{d: d, s: d.pebble.NewSnapshot()}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[s] = true
	return s
}

// Metrics implements what the agent tells of a store.
func (d *DB) Metrics() Metrics {
	m := d.pebble.Metrics()
	t := m.Total()
	return Metrics{
		Disk: m.DiskSpaceUsage(), Written: t.TableBytesFlushed + t.TableBytesCompacted,
		Memory: uint64(m.BlockCache.Size) + m.MemTable.Size,
	}
}

// Close waits for flushes and compactions that run, and for no disk; it closes snapshots that a checkpoint left open when its pipeline failed. The files are removed, but for a damaged store: its directory is renamed, in
// place of the one that was set aside before.
func (d *DB) Close() error {
	d.Release() // what Pebble would still write is removed below
	d.mu.Lock()
	var err error
	for s := range d.open {
		err = errors.Join(err, s.s.Close())
	}
	clear(d.open)
	d.mu.Unlock()
	err = errors.Join(err, d.pebble.Close())
	if d.dir == "" {
		return err
	}
	if !d.damaged.Load() {
		return errors.Join(err, os.RemoveAll(d.dir))
	}
	bad := d.dir + ".bad"
	return errors.Join(err, os.RemoveAll(bad), os.Rename(d.dir, bad))
}

type batch struct {
	d *DB
	b *pebble.Batch
}

func (b *batch) Set(key, val []byte) error         { return b.b.Set(key, val, nil) }
func (b *batch) Delete(key []byte) error           { return b.b.Delete(key, nil) }
func (b *batch) DeleteRange(from, to []byte) error { return b.b.DeleteRange(from, to, nil) }
func (b *batch) Close() error                      { return b.b.Close() }

func (b *batch) Apply() error {
	if b.b.Empty() {
		return nil
	}
	if err := b.d.pebble.Apply(b.b, pebble.NoSync); err != nil {
		return b.d.mapped(err)
	}
	b.b.Reset()
	return b.d.ended()
}

type snapshot struct {
	d *DB
	s *pebble.Snapshot
}

func (s *snapshot) Iter(lower, upper []byte) (state.Iter, error) {
	if err := s.d.ended(); err != nil {
		return nil, err
	}
	it, err := s.s.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, s.d.mapped(err)
	}
	return &iter{d: s.d, it: it}, nil
}

// Close is harmless when it is repeated, or comes after that of the DB.
func (s *snapshot) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	if !s.d.open[s] {
		return nil
	}
	delete(s.d.open, s)
	return s.s.Close()
}

type iter struct {
	d     *DB
	it    *pebble.Iterator
	group []byte // the lower bound, of an iterator within one group
}

func (i *iter) First() bool {
	if i.group != nil {
		return i.it.SeekPrefixGE(i.group)
	}
	return i.it.First()
}

func (i *iter) SeekGE(key []byte) bool { return i.it.SeekGE(key) }
func (i *iter) Next() bool             { return i.it.Next() }
func (i *iter) Key() []byte            { return i.it.Key() }
func (i *iter) Close() error           { return i.d.mapped(i.it.Close()) }

func (i *iter) Value() ([]byte, error) {
	v, err := i.it.ValueAndErr()
	return v, i.d.mapped(err)
}
