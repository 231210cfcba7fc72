// Package deadletter keeps records that a pipeline or an upstream refused, for a person to look at and to put in again. It is
// a thin layer over store/log, capped by bytes and by age: the oldest go first, counted. FORMAT.md has the records.
//
// Each entry has a name (stream, generation, sequence) and is kept once: a repeat after a crash is dropped. When
// Append returns, the entries survive a power cut. Entries are numbered 1, 2, 3 … in the order in which they were kept, whoever refused
// them: Feed sends them on under these numbers.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Config bounds a Store.
type Config struct {
	Log log.Config
	// MaxBytes of entries are kept, in whole segments; the oldest go first.
	MaxBytes int64
	// MaxAge is how long an entry is kept: by the wall clock where both its stamp and the present one are trusted, else by the agent's life. 0: for ever.
	MaxAge time.Duration
	// MaxPayload bytes of an entry's payload are kept; a longer one is cut and says so.
	MaxPayload int
}

// Default keeps 64 MiB, at most 30 days.
func Default() Config {
	c := Config{Log: log.Default(), MaxBytes: 64 << 20, MaxAge: 30 * 24 * time.Hour, MaxPayload: 1 << 20}
	c.Log.SegmentBytes, c.Log.SpareSegments, c.Log.TailBytes = 1<<20, 1, 0 // they are read rarely
	return c
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	if err := c.Log.Validate(); err != nil {
		return err
	}
	if c.MaxBytes < 3*c.Log.SegmentBytes || c.MaxBytes > c.Log.MaxBytes-2*c.Log.SegmentBytes {
		return fmt.Errorf("dead letter max_bytes is %d, allowed is 3 segments (%d) to the log's max_bytes less two (%d)", c.MaxBytes,
			3*c.Log.SegmentBytes, c.Log.MaxBytes-2*c.Log.SegmentBytes)
	}
	if c.MaxAge < 0 {
		return fmt.Errorf("dead letter max_age is %s, allowed is 0 or more", c.MaxAge)
	}
	if c.MaxPayload < 1 || c.MaxPayload > 32<<20 {
		return fmt.Errorf("dead letter max_payload is %d, allowed is 1 to %d", c.MaxPayload, 32<<20)
	}
	return nil
}

// Options says where a Store lives.
type Options struct {
	FS  disk.FS
	Dir string
	Config
	Stamp  func() pipeline.Stamp
	Codec  *log.Codec // of the log; nil: one of its own
	Logger *slog.Logger
	// Failed is called once when the store takes nothing any more until it is closed and opened again. It must not block. nil: every Append tells.
	Failed func(error)
	// Waiting is called with each try of a write that waits until the disk takes it. It must not block. Optional.
	Waiting func()
}

// Entry is one dead letter.
type Entry struct {
	// ID is the entry's place here; it rises and is never used again.
	ID uint64
	// Number counts the entries from 1; set by the store.
	Number uint64
	// Stream, Generation and Seq name the entry. Last is Seq but for a range that was dropped without being kept.
	Stream     string
	Generation uint64
	Seq, Last  uint64
	Gap        bool // Seq..Last were dropped on the way here; Reason says why
	Pos        pipeline.Position
	Time       int64  // event time ms, pipeline.NoTime if none
	Wall       int64  // Unix ms when it was kept, as the clock said
	Reason     string // why it was refused
	Payload    []byte
	Size       int // of the payload before it was cut to MaxPayload
}

// Recovery tells what Open found.
type Recovery struct {
	Log     *log.Recovery
	Entries uint64
	Damaged []string
}

// ErrGone says that an entry was never here or has made room for newer ones.
var ErrGone = errors.New("dead letter is not here any more")

// Store is safe for use by several goroutines; mu lets one append at a time.
type Store struct {
	config Config
	log    *log.Log
	logger *slog.Logger
	stamp  func() pipeline.Stamp
	grown  chan struct{} // a token when there may be something for the feed
	faults faults

	shown atomic.Pointer[Stats] // by Stats, the last time

	mu      sync.Mutex
	known   map[name]*ranges
	kept    uint64 // number of the newest entry
	expired uint64
	put     uint64 // into the journal again
	gone    uint64 // entries with IDs up to here are no more: they made room, or were too old
	goneNo  uint64 // the number of the last of them
	removed ranges // IDs past gone that were put into the journal again
	started *requeue
	startAt uint64         // position of its record
	head    pipeline.Stamp // of the entry at headAt, the oldest
	headAt  uint64
	repeats uint64
	encoded []byte
}

// faults are planted by tests to show that they would be found.
type faults struct{ forgetRemoval, keepUncounted bool }

type name struct {
	stream     string
	generation uint64
}

// Stats counts since the store was made: Kept = Held + Evicted + Expired + Requeued.
type Stats struct {
	Kept     uint64 // entries that were ever kept
	Held     uint64 // of them, those that are here
	Evicted  uint64 // made room for newer ones
	Expired  uint64 // were older than MaxAge
	Requeued uint64 // were put into the journal again
	Repeated uint64 // repeats dropped since Open
	Oldest   int64  // Unix ms at which the oldest one here was kept, as the clock said; 0: none, or not yet looked at
	Log      log.Stats
}

// Open recovers the store.
func Open(o Options) (*Store, *Recovery, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	l, lr, err := log.Open(log.Options{FS: o.FS, Dir: o.Dir, Config: o.Config.Log, Stamp: o.Stamp, Codec: o.Codec, Logger: o.Logger, Waiting: o.Waiting})
	if err != nil {
		return nil, nil, fmt.Errorf("open dead letter log: %w", err)
	}
	s := &Store{config: o.Config, log: l, logger: o.Logger, stamp: o.Stamp, grown: make(chan struct{}, 1), known: map[name]*ranges{}, removed: ranges{all: true}}
	if s.stamp == nil {
		s.stamp = func() pipeline.Stamp { return pipeline.Stamp{} }
	}
	if o.Failed != nil {
		l.OnDurable(func(_ uint64, err error) {
			if err != nil {
				o.Failed(fmt.Errorf("dead letters: %w", err))
			}
		})
	}
	rec := &Recovery{Log: lr}
	if err := s.recover(rec); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read dead letter log: %w", err), l.Close())
	}
	return s, rec, nil
}

func (s *Store) recover(rec *Recovery) error {
	var newer error
	err := s.scan(context.Background(), s.log.First(), func(at uint64, r record, err error) bool {
		switch {
		case errors.Is(err, ErrVersion):
			newer = fmt.Errorf("record %d: %w", at, err)
			return false
		case err != nil:
			rec.Damaged = append(rec.Damaged, err.Error())
		case r.marks != nil:
			s.adopt(r.marks)
		case r.removed != nil:
			s.remove(r.removed)
		case r.requeue != nil:
			s.started, s.startAt = r.requeue, at
		case s.of(r.entry).add(r.entry.Seq, r.entry.Last):
			rec.Entries++
			s.kept = max(s.kept+1, r.entry.Number)
		}
		return true
	})
	if err = errors.Join(err, newer); err != nil {
		return err
	}
	return s.passTrimmed()
}

// adopt takes over what marks say of entries that may have been before them.
func (s *Store) adopt(m *marks) {
	s.known, s.kept, s.expired, s.put = m.known, m.kept, m.expired, m.requeued
	s.gone, s.goneNo = max(s.gone, m.gone), max(s.goneNo, m.goneNumber)
	s.removed.list = m.removed
}

// of gives the ranges that are known under an entry's name.
func (s *Store) of(e *Entry) *ranges {
	n := name{e.Stream, e.Generation}
	r := s.known[n]
	if r == nil {
		r = &ranges{}
		s.known[n] = r
	}
	return r
}

// LastSeq is the end of the unbroken run that was kept of a stream, for one whose entries come without holes.
func (s *Store) LastSeq(stream string, generation uint64) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.known[name{stream, generation}]; r != nil && len(r.list) > 0 {
		return r.list[0].last
	}
	return 0
}

// Append keeps entries; they are durable when it returns nil. Those that are here already are left out, so that it may be
// repeated. ID, Wall and Size are set by the store.
func (s *Store) Append(ctx context.Context, entries ...*Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range entries {
		if e.Last < e.Seq {
			e.Last = e.Seq
		}
		if s.of(e).has(e.Seq, e.Last) {
			s.repeats++
			continue
		}
		e.Number = s.kept + 1
		s.encoded = appendEntry(s.encoded[:0], e, s.config.MaxPayload)
		// Evicting keeps the log below its own limit; only a full disk makes it refuse.
		if _, err := s.log.Append(s.encoded); err != nil {
			return fmt.Errorf("keep dead letter %s %d: %w", e.Stream, e.Seq, err)
		}
		s.of(e).add(e.Seq, e.Last)
		if !s.faults.keepUncounted {
			s.kept++
		}
	}
	if err := s.log.Sync(ctx); err != nil {
		return fmt.Errorf("keep dead letters: %w", err)
	}
	select {
	case s.grown <- struct{}{}:
	default:
	}
	return s.evict(ctx)
}

// List gives up to limit entries with an ID above after, oldest first.
func (s *Store) List(ctx context.Context, after uint64, limit int) ([]Entry, error) {
	var out []Entry
	s.mu.Lock()
	gone, removed := s.gone, ranges{list: slices.Clone(s.removed.list)}
	s.mu.Unlock()
	err := s.scan(ctx, max(after+1, gone+1, s.log.First()), func(at uint64, r record, err error) bool {
		if err == nil && r.entry != nil && !removed.has(at, at) {
			out = append(out, *r.entry)
		}
		return len(out) < limit
	})
	return out, err
}

// Show gives one entry. ErrGone: it is not here any more.
func (s *Store) Show(ctx context.Context, id uint64) (Entry, error) {
	found, err := s.List(ctx, id-1, 1)
	if errors.Is(err, log.ErrTrimmed) || err == nil && (len(found) == 0 || found[0].ID != id) {
		return Entry{}, fmt.Errorf("show dead letter %d: %w", id, ErrGone)
	}
	if err != nil {
		return Entry{}, err
	}
	return found[0], nil
}

// scan calls f for each durable record from a position on, until f says no. An entry has its ID and wall time.
func (s *Store) scan(ctx context.Context, from uint64, f func(at uint64, r record, err error) bool) error {
	return s.blocks(ctx, from, func(b *log.Block) bool {
		if b.Lost {
			return f(b.First, record{}, fmt.Errorf("entries %d to %d are lost", b.First, b.Last))
		}
		for pos, data := range b.Records() {
			r, err := decode(data)
			if r.entry != nil {
				r.entry.ID, r.entry.Wall = pos, b.Stamp.Wall
			}
			if !f(pos, r, err) {
				return false
			}
		}
		return true
	})
}

// blocks calls f for the durable frames from a position on, until f says no. What makes room meanwhile is passed over.
func (s *Store) blocks(ctx context.Context, from uint64, f func(*log.Block) bool) error {
	last := s.log.Durable()
	from = max(from, s.log.First())
	if from > last {
		return nil
	}
	r, err := s.log.Reader(from)
	if err != nil {
		return err
	}
	defer r.Close()
	for at := from; at <= last; {
		b, err := r.Next(ctx)
		if err != nil {
			return err
		}
		if !f(b) {
			return nil
		}
		at = b.Last + 1
	}
	return nil
}

// statsPoll is how long Stats waits between two looks whether an Append has ended.
const statsPoll = time.Millisecond

// Stats may be read at any time, also while an Append waits for a disk that is full: then they are those of the last look.
func (s *Store) Stats() Stats {
	for !s.mu.TryLock() {
		if l := s.log.Stats(); l.Waits != "" {
			st := Stats{}
			if last := s.shown.Load(); last != nil {
				st = *last
			}
			st.Log = l
			return st
		}
		time.Sleep(statsPoll)
	}
	defer s.mu.Unlock()
	st := Stats{Kept: s.kept, Expired: s.expired, Requeued: s.put, Repeated: s.repeats, Log: s.log.Stats()}
	st.Held = s.kept - min(s.kept, s.goneNo+s.removed.count())
	st.Evicted = s.kept - min(s.kept, st.Held+st.Expired+st.Requeued)
	if s.headAt > s.gone && st.Held > 0 {
		st.Oldest = s.head.Wall
	}
	s.shown.Store(&st)
	return st
}

// Close ends the store.
func (s *Store) Close() error { return s.log.Close() }
