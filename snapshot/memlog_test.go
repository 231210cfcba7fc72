package snapshot

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/weirstream/weir/store/boltkv"
	"github.com/weirstream/weir/store/disk"
)

// memLog is a recordLog without a disk: what the tests of the store's own logic need. What was not synced may be dropped.
//
// mu guards it: what is restored is read while the coordinator writes.
type memLog struct {
	mu      sync.Mutex
	first   uint64
	recs    [][]byte
	durable uint64
	full    error
	holes   map[uint64]bool
}

func newMemLog() *memLog { return &memLog{first: 1, holes: map[uint64]bool{}} }

func (l *memLog) AppendReserved(parts ...[]byte) (uint64, error) { return l.Append(parts...) }

func (l *memLog) Append(parts ...[]byte) (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full != nil {
		return 0, l.full
	}
	var rec []byte
	for _, p := range parts {
		rec = append(rec, p...)
	}
	l.recs = append(l.recs, rec)
	return l.last(), nil
}

func (l *memLog) setFull(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.full = err
}

func (l *memLog) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.durable = l.last()
	return nil
}

func (l *memLog) First() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.first
}

func (l *memLog) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last()
}

func (l *memLog) last() uint64 { return l.first + uint64(len(l.recs)) - 1 }

func (l *memLog) bytes() (n uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.recs {
		n += uint64(len(r))
	}
	return n
}

func (l *memLog) Trim(before uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.first < before && len(l.recs) > 0 {
		l.first, l.recs = l.first+1, l.recs[1:]
	}
	return nil
}

func (l *memLog) Close() error { return nil }

// crash drops what was not synced, except for keep records.
func (l *memLog) crash(keep int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := int(l.durable-l.first) + 1 + keep; n < len(l.recs) {
		l.recs = l.recs[:n]
	}
}

func (l *memLog) scan(_ context.Context, from uint64, f func(uint64, []byte) (bool, error)) error {
	for pos := from; ; pos++ {
		rec, err := l.record(pos)
		if err != nil || rec == nil {
			return err
		}
		if more, err := f(pos, rec); err != nil || !more {
			return err
		}
	}
}

// record gives a record, nil behind the last.
func (l *memLog) record(pos uint64) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case pos < l.first:
		return nil, fmt.Errorf("position %d: %w", pos, ErrMissing)
	case pos > l.last():
		return nil, nil
	case l.holes[pos]:
		return nil, fmt.Errorf("position %d: %w", pos, ErrCorrupt)
	}
	return l.recs[pos-l.first], nil
}

// openMemStore makes a LogStore over a memLog; opening the same log again is a restart.
func openMemStore(t testing.TB, dir string, l *memLog) *LogStore {
	t.Helper()
	s, err := newLogStore(context.Background(), LogOptions{FS: disk.OS, Dir: dir, Pipeline: testPipeline, Logger: discard()}, l, chunkBytes)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var errFull = errors.New("no space left on device")

type boltTx = boltkv.Tx

var osFS = disk.OS

// openTestLog opens a LogStore over the real log, with small segments.
func openTestLog(fsys disk.FS, dir string, segment int64) (*LogStore, error) {
	cfg := DefaultLogConfig()
	cfg.SegmentBytes, cfg.MaxBytes = segment, 64*segment
	return OpenLog(context.Background(), LogOptions{FS: fsys, Dir: dir, Pipeline: testPipeline, Log: &cfg, Logger: discard()})
}
