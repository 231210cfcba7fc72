// Package boltkv opens bbolt files such that neither a power cut nor a damaged file harms the process. It is the only
// importer of bbolt.
//
// A new file is made under another name, synced, renamed, and its directory synced: bbolt's own creation is not crash-safe. An
// existing file is checked without mapping it before bbolt sees it: bbolt answers damage with SIGBUS or with a panic in a
// goroutine of its own. When Update returns nil, the transaction survives power loss. Any goroutine may use a DB.
package boltkv

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Tx, Bucket and Cursor are bbolt's, so that callers need not import it.
type (
	Tx     = bbolt.Tx
	Bucket = bbolt.Bucket
	Cursor = bbolt.Cursor
)

// Options of Open. The zero value is usable.
type Options struct {
	// LockTimeout is how long to wait for another process to give the file up; 0: 1 s.
	LockTimeout time.Duration
	// MmapBytes is mapped at first; it grows by itself. 0: 64 KiB. Small, for the address space of 32-bit boards.
	MmapBytes int
	// MaxBytes limits the file; 0: no limit.
	MaxBytes int
	// ReadOnly opens for inspection beside no writer. The file must exist.
	ReadOnly bool
	// NoSync leaves out every sync: for tests of logic on slow disks. Nothing survives a power cut then.
	NoSync bool
}

// DB is an open file.
type DB struct {
	bolt  *bbolt.DB
	path  string
	watch watched
}

// Open opens path, making it when it is not there. It returns ErrLocked when another process holds it and ErrCorrupt
// when it is damaged; in both cases nothing was changed. A left-over of an interrupted creation is removed.
func Open(path string, o Options) (*DB, error) {
	if o.LockTimeout <= 0 {
		o.LockTimeout = time.Second
	}
	if o.MmapBytes <= 0 {
		o.MmapBytes = 64 << 10
	}
	switch err := check(path); {
	case errors.Is(err, fs.ErrNotExist) && !o.ReadOnly:
		if err := create(path, o, osSteps(o)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	b, err := openBolt(path, o)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	d := &DB{bolt: b, path: path}
	if d.watch, err = watch(d); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return d, nil
}

// openBolt maps errors and, where they come in this goroutine, panics.
func openBolt(path string, o Options) (b *bbolt.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			b, err = nil, fmt.Errorf("bbolt: %v: %w", p, ErrCorrupt)
		}
	}()
	b, err = bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout: o.LockTimeout, NoFreelistSync: true, FreelistType: bbolt.FreelistMapType, InitialMmapSize: o.MmapBytes,
		MaxSize: o.MaxBytes, ReadOnly: o.ReadOnly, NoStatistics: true, NoSync: o.NoSync, NoGrowSync: o.NoSync,
	})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return nil, fmt.Errorf("%w after %s", ErrLocked, o.LockTimeout)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch), errors.Is(err, bolterrors.ErrChecksum),
		errors.Is(err, bolterrors.ErrInvalidMapping):
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return b, err
}

// steps are what a creation is made of. Tests watch them and plant faults.
type steps struct {
	tmpName      func(path string) string
	remove, sync func(path string) error // sync: a file with its size, or a directory
	open         func(path string, o Options) (*bbolt.DB, error)
	rename       func(from, to string) error
}

func osSteps(o Options) steps {
	s := steps{tmpName: func(path string) string { return path + ".tmp" }, remove: os.Remove, sync: syncPath, open: openBolt, rename: os.Rename}
	if o.NoSync {
		s.sync = func(string) error { return nil }
	}
	return watchedSteps(s)
}

// create makes an empty database: whole under another name first.
func create(path string, o Options, s steps) error {
	tmp := s.tmpName(path)
	if err := s.remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("create %s: %w", path, err)
	}
	b, err := s.open(tmp, o)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	err = b.Close()
	if err == nil {
		err = s.sync(tmp) // the size too, which bbolt's own fdatasync need not flush
	}
	if err == nil {
		err = s.rename(tmp, path)
	}
	if err == nil {
		err = s.sync(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	return nil
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// check walks the file without mapping it.
func check(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return walk(f, info.Size())
}

// Update runs f in a read-write transaction; one at a time. Durable when it returns nil.
func (d *DB) Update(f func(*Tx) error) error { return d.watch.synced(d.bolt.Update(f)) }

// View runs f in a read-only transaction. Keys and values are valid inside f only.
func (d *DB) View(f func(*Tx) error) error { return d.bolt.View(f) }

// Check walks the whole tree of the file and returns ErrCorrupt for the first thing that is wrong.
// A transaction that commits meanwhile could be reported as damage, so it is kept out.
func (d *DB) Check() error {
	tx, err := d.bolt.Begin(!d.bolt.IsReadOnly())
	if err != nil {
		return fmt.Errorf("check %s: %w", d.path, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was written
	if err := check(d.path); err != nil {
		return fmt.Errorf("check %s: %w", d.path, err)
	}
	return nil
}

// Size is the length of the file in bytes. It never shrinks.
func (d *DB) Size() int64 {
	var n int64
	_ = d.View(func(tx *Tx) error { n = tx.Size(); return nil }) // fails only when closed
	return n
}

// Path is the file's name.
func (d *DB) Path() string { return d.path }

// Close waits for transactions that run.
func (d *DB) Close() error { return errors.Join(d.bolt.Close(), d.watch.close()) }

// SetAside renames a damaged file to the first free name of path.bad-1, path.bad-2, … and returns it. Durable on return.
func SetAside(path string) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.bad-%d", path, n)
		if _, err := os.Lstat(to); err == nil {
			continue
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("set %s aside: %w", path, err)
		}
		if err := os.Rename(path, to); err != nil {
			return "", fmt.Errorf("set %s aside: %w", path, err)
		}
		if err := syncPath(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("set %s aside: %w", path, err)
		}
		return to, nil
	}
}
