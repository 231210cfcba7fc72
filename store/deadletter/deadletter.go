// Package deadletter keeps records that a pipeline or an upstream refused, for a person to look at and to put in again. It is
// a thin layer over store/log, capped by bytes: the oldest go first, counted. FORMAT.md has the records.
//
// Each entry has a name (stream, generation, sequence) and is kept once: a repeat after a crash is dropped. When
// Append returns, the entries survive a power cut.
package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Config bounds a Store.
type Config struct {
	Log log.Config
	// MaxBytes of entries are kept, in whole segments; the oldest go first.
	MaxBytes int64
	// MaxPayload bytes of an entry's payload are kept; a longer one is cut and says so.
	MaxPayload int
}

// Default keeps 64 MiB.
func Default() Config {
	c := Config{Log: log.Default(), MaxBytes: 64 << 20, MaxPayload: 1 << 20}
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
}

// Entry is one dead letter.
type Entry struct {
	// ID is the entry's place here; it rises and is never used again.
	ID uint64
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

	mu      sync.Mutex
	known   map[name]*ranges
	stats   Stats
	encoded []byte
}

type name struct {
	stream     string
	generation uint64
}

// Stats counts since the store was made.
type Stats struct {
	Kept     uint64 // entries that were ever kept
	Evicted  uint64 // of them, those that made room
	Repeated uint64 // repeats dropped since Open
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
	l, lr, err := log.Open(log.Options{FS: o.FS, Dir: o.Dir, Config: o.Config.Log, Stamp: o.Stamp, Codec: o.Codec, Logger: o.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("open dead letter log: %w", err)
	}
	s := &Store{config: o.Config, log: l, logger: o.Logger, known: map[name]*ranges{}}
	rec := &Recovery{Log: lr}
	if err := s.recover(rec); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("read dead letter log: %w", err), l.Close())
	}
	return s, rec, nil
}

func (s *Store) recover(rec *Recovery) error {
	return s.scan(context.Background(), s.log.First(), func(e *Entry, m *marks, err error) bool {
		switch {
		case err != nil:
			rec.Damaged = append(rec.Damaged, err.Error())
		case m != nil:
			s.known, s.stats.Kept, s.stats.Evicted = m.known, m.kept, m.evicted
		case s.of(e).add(e.Seq, e.Last):
			rec.Entries++
			s.stats.Kept++
		}
		return true
	})
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
			s.stats.Repeated++
			continue
		}
		s.encoded = appendEntry(s.encoded[:0], e, s.config.MaxPayload)
		// Evicting keeps the log below its own limit; only a full disk makes it refuse.
		if _, err := s.log.Append(s.encoded); err != nil {
			return fmt.Errorf("keep dead letter %s %d: %w", e.Stream, e.Seq, err)
		}
		s.of(e).add(e.Seq, e.Last)
		s.stats.Kept++
	}
	if err := s.log.Sync(ctx); err != nil {
		return fmt.Errorf("keep dead letters: %w", err)
	}
	return s.evict(ctx)
}

// evict recycles the oldest segments while more than MaxBytes are kept. What is known of evicted entries is written first:
// a repeat of one must not come back as new.
func (s *Store) evict(ctx context.Context) error {
	if s.log.Stats().LiveBytes <= s.config.MaxBytes {
		return nil
	}
	for s.log.Stats().LiveBytes > s.config.MaxBytes {
		first := s.log.First()
		before, last := first, s.log.Last()
		for step := max(1, (last-first)/8); s.log.First() == first && before < last; {
			before = min(before+step, last)
			s.stats.Evicted = max(s.stats.Evicted, s.stats.Kept-min(s.stats.Kept, last-before+1))
			if _, err := s.log.AppendReserved(appendMarks(nil, &marks{known: s.known, kept: s.stats.Kept, evicted: s.stats.Evicted})); err != nil {
				return fmt.Errorf("write dead letter marks: %w", err)
			}
			if err := s.log.Sync(ctx); err != nil {
				return fmt.Errorf("write dead letter marks: %w", err)
			}
			if err := s.log.Trim(before); err != nil {
				return fmt.Errorf("evict dead letters: %w", err)
			}
		}
		if s.log.First() == first {
			return nil // one segment: nothing can go
		}
	}
	s.logger.Warn("oldest dead letters made room", "evicted_total", s.stats.Evicted)
	return nil
}

// List gives up to limit entries with an ID above after, oldest first.
func (s *Store) List(ctx context.Context, after uint64, limit int) ([]Entry, error) {
	var out []Entry
	err := s.scan(ctx, max(after+1, s.log.First()), func(e *Entry, _ *marks, err error) bool {
		if err == nil && e != nil {
			out = append(out, *e)
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

// scan calls f for each durable record from a position on, until f says no.
func (s *Store) scan(ctx context.Context, from uint64, f func(*Entry, *marks, error) bool) error {
	last := s.log.Durable()
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
		if b.Lost && !f(nil, nil, fmt.Errorf("entries %d to %d are lost", b.First, b.Last)) {
			return nil
		}
		for pos, data := range b.Records() {
			e, m, err := decode(data)
			if e != nil {
				e.ID, e.Wall = pos, b.Stamp.Wall
			}
			if !f(e, m, err) {
				return nil
			}
		}
		at = b.Last + 1
	}
	return nil
}

// Stats may be read at any time.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Log = s.log.Stats()
	return st
}

// Close ends the store.
func (s *Store) Close() error { return s.log.Close() }
