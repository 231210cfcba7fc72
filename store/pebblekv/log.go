//go:build !nopebble

package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Log is a sequence of records, numbered from 1 without gaps, in a Pebble directory. When Sync returns nil, all that was appended before
// survives power loss; after a crash the log ends at or behind the last such record, and holds every one up to there. Any goroutine may
// use it. mu guards everything.
type Log struct {
	pebble *pebble.DB
	o      LogOptions
	aside  []string

	mu      sync.Mutex
	batch   *pebble.Batch
	waiting int // bytes in batch
	first   uint64
	last    uint64 // appended
	failed  error
}

const (
	recordKey = 'r' // and the position, big endian
	firstKey  = "f" // the first position that was not trimmed

	// applyBytes wait at most outside of Pebble's own log.
	applyBytes = 256 << 10
	// reserveBytes of the disk are left to Pebble: it ends the process when it cannot write its manifest.
	reserveBytes = 16 << 20

	logMemory = 2 << 20
	asideName = "aside-"
)

// OpenLog opens or makes a log. A directory that Pebble finds damaged is set aside, file by file, and an empty log opens; Aside tells.
func OpenLog(o LogOptions) (*Log, error) { return openLog(o, diskFS{o.FS}) }

func openLog(o LogOptions, files vfs.FS) (*Log, error) {
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	l := &Log{o: o}
	err := l.recover(files)
	if errors.Is(err, ErrDamaged) {
		if err = errors.Join(l.setAside(), l.recover(files)); err != nil {
			return nil, fmt.Errorf("open %s: %w", o.Dir, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	names, err := o.FS.List(o.Dir)
	if err != nil {
		return nil, errors.Join(err, l.pebble.Close())
	}
	for _, n := range names {
		if strings.HasPrefix(n, asideName) {
			l.aside = append(l.aside, n)
		}
	}
	return l, nil
}

// recover opens the directory and learns the range.
func (l *Log) recover(files vfs.FS) (err error) {
	opt := options(files, logMemory, l.o.Background)
	opt.FlushDelayDeleteRange = flushDelay
	opt.WALBytesPerSync = 0
	defer func() {
		if r := recover(); r != nil { // Pebble's answer to some kinds of damage
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
	}()
	if l.pebble, err = pebble.Open(l.o.Dir, opt); err != nil {
		if pebble.IsCorruptionError(err) || errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return err
	}
	if err = l.readRange(); err != nil {
		return errors.Join(err, l.pebble.Close())
	}
	l.batch = l.pebble.NewBatch()
	return nil
}

func (l *Log) readRange() error {
	l.first = 1
	v, closer, err := l.pebble.Get([]byte(firstKey))
	switch {
	case err == nil:
		l.first = binary.BigEndian.Uint64(append(make([]byte, 8-min(len(v), 8)), v...))
		err = closer.Close()
	case errors.Is(err, pebble.ErrNotFound):
		err = nil
	}
	if err != nil {
		return mapDamage(err)
	}
	l.last = l.first - 1
	it, err := l.pebble.NewIter(&pebble.IterOptions{LowerBound: []byte{recordKey}, UpperBound: []byte{recordKey + 1}})
	if err != nil {
		return mapDamage(err)
	}
	if it.Last() {
		l.last = max(l.last, positionOf(it.Key()))
	}
	return mapDamage(it.Close())
}

func mapDamage(err error) error {
	if err != nil && pebble.IsCorruptionError(err) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// setAside renames the files such that Pebble does not know them; what names the others goes last, so that a crash in between does not make
// an empty store of a damaged one.
func (l *Log) setAside() error {
	names, err := l.o.FS.List(l.o.Dir)
	if err != nil {
		return err
	}
	rank := func(n string) int {
		switch {
		case strings.HasPrefix(n, "marker"):
			return 2
		case strings.HasPrefix(n, "MANIFEST"):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	for _, n := range names {
		if strings.HasPrefix(n, asideName) {
			continue
		}
		to := asideName + n
		for i := 2; slices.Contains(names, to); i++ {
			to = fmt.Sprintf("%s%d-%s", asideName, i, n)
		}
		if err := l.o.FS.Rename(filepath.Join(l.o.Dir, n), filepath.Join(l.o.Dir, to)); err != nil {
			return err
		}
		if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
			return err
		}
	}
	return nil
}

// Aside names the files of damaged directories that were set aside, now or before.
func (l *Log) Aside() []string { return l.aside }

func positionKey(dst []byte, pos uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, recordKey), pos)
}

func positionOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// guard latches the log when Pebble gives up: it says so by Fatalf, which quiet turns into a panic.
func (l *Log) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
		if err != nil {
			err = fmt.Errorf("%w: %w", ErrFailed, err)
			l.failed = err
		}
	}()
	return f()
}

// Append puts a record behind the last one and gives its position; not durable. ErrFull: the disk is, and nothing was appended. ErrFailed: nothing
// more ever will be.
func (l *Log) Append(parts ...[]byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return 0, l.failed
	}
	if free, err := l.o.FS.Free(l.o.Dir); err != nil || free < reserveBytes {
		return 0, fmt.Errorf("append to %s: %w, %d bytes are free", l.o.Dir, errors.Join(ErrFull, err), free)
	}
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	d := l.batch.SetDeferred(9, n)
	positionKey(d.Key[:0], l.last+1)
	at := 0
	for _, p := range parts {
		at += copy(d.Value[at:], p)
	}
	if err := d.Finish(); err != nil {
		return 0, err
	}
	l.last++
	if l.waiting += n; l.waiting >= applyBytes {
		if err := l.apply(pebble.NoSync); err != nil {
			return 0, err
		}
	}
	return l.last, nil
}

func (l *Log) apply(o *pebble.WriteOptions) error {
	err := l.guard(func() error { return l.pebble.Apply(l.batch, o) })
	if err == nil {
		l.batch.Reset()
		l.waiting = 0
	}
	return err
}

// Sync makes everything appended durable. ErrFailed: it is not known whether it is.
func (l *Log) Sync(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if l.batch.Empty() { // Pebble syncs nothing for an empty batch
		if err := l.batch.LogData(nil, nil); err != nil {
			return err
		}
	}
	if l.o.fault.unsynced {
		return l.apply(pebble.NoSync)
	}
	return l.apply(pebble.Sync)
}

// First is the first position that was not trimmed.
func (l *Log) First() uint64 { l.mu.Lock(); defer l.mu.Unlock(); return l.first }

// Last is the last position appended; First-1 when there is none.
func (l *Log) Last() uint64 { l.mu.Lock(); defer l.mu.Unlock(); return l.last }

// Trim gives up what lies below a position. Not durable: after a crash it may be there again. The space is freed later.
func (l *Log) Trim(before uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	before = min(before, l.last+1)
	if before <= l.first || l.failed != nil {
		return l.failed
	}
	if err := l.batch.Set([]byte(firstKey), binary.BigEndian.AppendUint64(nil, before), nil); err != nil {
		return err
	}
	if err := l.batch.DeleteRange(positionKey(nil, l.first), positionKey(nil, before), nil); err != nil {
		return err
	}
	l.first = before
	return l.apply(pebble.NoSync)
}

// Scan calls f for the records from a position on until f returns false; what waits for a Sync is left out. rec is valid during the call. It ends
// with ErrDamaged where records cannot be read, with *MissingError where they are not there.
func (l *Log) Scan(ctx context.Context, from uint64, f func(pos uint64, rec []byte) (bool, error)) (err error) {
	it, err := l.pebble.NewIter(&pebble.IterOptions{LowerBound: positionKey(nil, from), UpperBound: []byte{recordKey + 1}})
	if err != nil {
		return mapDamage(err)
	}
	defer func() {
		if closed := mapDamage(it.Close()); err == nil {
			err = closed
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		if err := ctx.Err(); err != nil {
			return err
		}
		pos := positionOf(it.Key())
		if pos != from {
			return &MissingError{First: from, Last: pos - 1}
		}
		rec, err := it.ValueAndErr()
		if err != nil {
			return mapDamage(err)
		}
		if more, err := f(pos, rec); err != nil || !more {
			return err
		}
		from++
	}
	return nil
}

// Bytes are those on flash.
func (l *Log) Bytes() uint64 { return l.pebble.Metrics().DiskSpaceUsage() }

// Close gives up what was not synced.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed = ErrClosed
	return errors.Join(l.batch.Close(), l.pebble.Close())
}
