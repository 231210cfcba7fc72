//go:build !nopebble

package pebblekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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
	files  vfs.FS
	disk   *severed
	aside  []string
	stuck  bool // Pebble gave up with its locks held: it cannot be closed

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
	// madeName is there once the directory was made whole: Pebble's own making is not crash-safe, its marker can outlive its manifest.
	madeName = "made"
)

// OpenLog opens or makes a log. A directory that Pebble finds damaged is set aside, file by file, and an empty log opens; Aside tells. An error of the disk is none of the directory: what it held
// durably stays.
func OpenLog(o LogOptions) (*Log, error) { return openLog(o, diskFS{o.FS}) }

func openLog(o LogOptions, files vfs.FS) (*Log, error) {
	disk := newSevered(files)
	disk.off = o.fault.frank
	l := &Log{o: o, disk: disk, files: orderly{disk, o.fault.disorderly}}
	err := l.make()
	if err == nil {
		err = l.recover()
	}
	if errors.Is(err, ErrDamaged) {
		if err = l.setAside(); err == nil {
			err = l.make()
		}
		if err == nil {
			err = l.recover()
		}
	}
	if cut := disk.err(); cut != nil { // it comes before what followed from it
		err = cut
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", o.Dir, err)
	}
	names, err := files.List(o.Dir)
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

// make makes an empty directory, unless it was made. What a crash left of an earlier making is removed.
func (l *Log) make() error {
	if err := l.files.MkdirAll(l.o.Dir, 0o700); err != nil {
		return err
	}
	names, err := l.files.List(l.o.Dir)
	if err != nil || slices.Contains(names, madeName) {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, asideName) {
			continue
		}
		if err := l.files.Remove(l.path(n)); err != nil {
			return err
		}
	}
	if err := l.recover(); err != nil {
		return err
	}
	if err := errors.Join(l.batch.Close(), l.pebble.Close()); err != nil {
		return err
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	f, err := l.files.Create(l.path(madeName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(l.syncDir(), l.disk.err())
}

func (l *Log) path(name string) string { return l.files.PathJoin(l.o.Dir, name) }

func (l *Log) syncDir() error {
	d, err := l.files.OpenDir(l.o.Dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// recover opens the directory and learns the range.
func (l *Log) recover() (err error) {
	opt := options(l.files, logMemory, seldom(l.o.Background))
	opt.FlushDelayDeleteRange = flushDelay
	opt.WALBytesPerSync = 0
	defer func() {
		if r := recover(); r != nil { // Pebble's answer to some kinds of damage
			err = fmt.Errorf("%w: %v", ErrDamaged, r)
		}
		if cut := l.disk.err(); cut != nil { // whatever Pebble thinks of what it read behind it
			if err == nil {
				_ = l.Close() // of what is in memory
			}
			err = cut
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

// setAside renames the files such that Pebble does not know them. madeName goes last: until then the directory is damaged, not new.
func (l *Log) setAside() error {
	names, err := l.files.List(l.o.Dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, asideName) || n == madeName {
			continue
		}
		to := asideName + n
		for i := 2; slices.Contains(names, to); i++ {
			to = fmt.Sprintf("%s%d-%s", asideName, i, n)
		}
		if err := l.files.Rename(l.path(n), l.path(to)); err != nil {
			return err
		}
	}
	if err := l.syncDir(); err != nil {
		return err
	}
	if err := l.files.Remove(l.path(madeName)); err != nil {
		return err
	}
	return errors.Join(l.syncDir(), l.disk.err())
}

// Aside names the files of damaged directories that were set aside, now or before.
func (l *Log) Aside() []string { return l.aside }

func positionKey(dst []byte, pos uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, recordKey), pos)
}

func positionOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[1:]) }

// guard latches the log when the disk is severed, or when Pebble gives up: it says so by Fatalf, which quiet turns into a panic.
func (l *Log) guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			l.stuck = true
			err = fmt.Errorf("%v", r)
		}
		if cut := l.disk.err(); cut != nil {
			err = cut
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
	if err := l.ended(); err != nil {
		return 0, err
	}
	if free, err := l.o.FS.Free(l.o.Dir); err != nil || free < reserveBytes {
		return 0, errors.Join(fmt.Errorf("append to %s: %w: %d bytes are free", l.o.Dir, ErrFull, free), err)
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

// ended is why nothing is appended any more, nil while it is: the last write failed, or one of Pebble's own since.
func (l *Log) ended() error {
	if l.failed == nil {
		return l.guard(func() error { return nil })
	}
	return l.failed
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
	if err := l.ended(); err != nil {
		return err
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
	if err := l.ended(); err != nil || before <= l.first {
		return err
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

// Close gives up what was not synced. It waits for no disk that failed.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stuck {
		return nil
	}
	told := l.failed != nil
	l.failed = ErrClosed
	err := errors.Join(l.batch.Close(), l.pebble.Close())
	if !told {
		err = errors.Join(err, l.disk.err())
	}
	return err
}
