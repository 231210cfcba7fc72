// Package journal keeps all that enters the gateway, in order, until no checkpoint needs it. It implements pipeline.Journal over
// store/log: when Durable reaches an entry's position, the entry survives a power cut. FORMAT.md has the bytes.
//
// It has no goroutine of its own. Append is for sources, Reader for pipelines, Retain, Release and Trim for the coordinators. All
// methods may be called by several goroutines.
package journal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Options says where a journal lives.
type Options struct {
	FS  disk.FS // nil: disk.OS
	Dir string
	log.Config
	// Stamp gives the time of a frame; called by the committer.
	Stamp func() pipeline.Stamp
	// After is the highest position known from checkpoints. Should the journal have lost its tail, positions go on behind it: none is
	// ever given out twice. What is jumped over reads as a gap.
	After  pipeline.Position
	Logger *slog.Logger // nil: silent
}

// Recovery is what Open found.
type Recovery = log.Recovery

// Journal implements pipeline.Journal.
type Journal struct {
	log    *log.Log
	faults faults

	mu      sync.Mutex
	holders map[string]pipeline.Position
}

// faults are planted by tests.
type faults struct {
	carryNotSynced bool // the recycle does not wait for what was carried
	carrySkipped   bool // nothing is carried
	positionsAgain bool // After is not heeded
	gapHidden      bool // a lost range is passed over in silence
}

var _ pipeline.Journal = (*Journal)(nil)

// Open opens the journal in a directory, recovering what a crash left. On return everything up to Last is durable.
func Open(o Options) (*Journal, *Recovery, error) { return open(o, faults{}) }

func open(o Options, f faults) (*Journal, *Recovery, error) {
	if f.positionsAgain {
		o.After = 0
	}
	l, rec, err := log.Open(log.Options{FS: o.FS, Dir: o.Dir, Config: o.Config, Stamp: o.Stamp, After: uint64(o.After), Logger: o.Logger})
	if err != nil {
		return nil, nil, fmt.Errorf("open journal: %w", err)
	}
	return &Journal{log: l, faults: f, holders: map[string]pipeline.Position{}}, rec, nil
}

// headBytes of stack hold an entry's head; longer names go to the heap.
const headBytes = 192

// Append implements pipeline.Journal. Besides ErrJournalFull and ErrJournalFailed it gives log.ErrTooLarge and log.ErrClosed.
func (j *Journal) Append(e *pipeline.Entry) (pipeline.Position, error) {
	var buf [headBytes]byte
	head := appendHead(buf[:0], e)
	pos, err := j.log.Append(head, e.Topic, e.Payload)
	if err != nil {
		return 0, failure(err)
	}
	return pipeline.Position(pos), nil
}

// AppendAll implements pipeline.Journal; its errors are those of Append.
func (j *Journal) AppendAll(es []pipeline.Entry) (n int, err error) {
	for n < len(es) {
		rest := es[n:]
		first, done, err := j.log.AppendAll(len(rest),
			func(i int) int { return size(&rest[i]) },
			func(dst []byte, i int) []byte {
				e := &rest[i]
				return append(append(appendHead(dst, e), e.Topic...), e.Payload...)
			})
		for i := range done {
			rest[i].Pos = pipeline.Position(first) + pipeline.Position(i)
		}
		if n += done; err != nil {
			return n, failure(err)
		}
	}
	return n, nil
}

// failure maps the log's errors to those of pipeline.Journal.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, log.ErrFull):
		return pipeline.ErrJournalFull
	case errors.Is(err, log.ErrFailed):
		return fmt.Errorf("%w: %w", pipeline.ErrJournalFailed, err)
	case errors.Is(err, log.ErrTrimmed):
		return fmt.Errorf("%w: %w", pipeline.ErrTrimmed, err)
	}
	return err
}

// First implements pipeline.Journal.
func (j *Journal) First() pipeline.Position { return pipeline.Position(j.log.First()) }

// Last implements pipeline.Journal.
func (j *Journal) Last() pipeline.Position { return pipeline.Position(j.log.Last()) }

// Durable implements pipeline.Journal.
func (j *Journal) Durable() pipeline.Position { return pipeline.Position(j.log.Durable()) }

// Beat tells whether the committer gets on: see log.Log.
func (j *Journal) Beat() (beat uint64, working bool) { return j.log.Beat() }

// LastStamp is the stamp of the newest durable frame: the agent's clock goes on from it.
func (j *Journal) LastStamp() pipeline.Stamp { return j.log.LastStamp() }

// OnDurable implements pipeline.Journal.
func (j *Journal) OnDurable(f func(durable pipeline.Position, err error)) (cancel func()) {
	return j.log.OnDurable(func(pos uint64, err error) { f(pipeline.Position(pos), failure(err)) })
}

// OnFull implements pipeline.Journal.
func (j *Journal) OnFull(f func(full bool)) (cancel func()) { return j.log.OnFull(f) }

// Stretch has commits wait longer for more messages, see log.Log.Stretch.
func (j *Journal) Stretch(linger time.Duration, records int) { j.log.Stretch(linger, records) }

// Sync implements pipeline.Journal.
func (j *Journal) Sync(ctx context.Context) error { return failure(j.log.Sync(ctx)) }

// Stats are counts and sizes.
type Stats struct {
	First, Last, Durable pipeline.Position
	Holders              map[string]pipeline.Position
	Log                  log.Stats
}

// Stats may be called at any time.
func (j *Journal) Stats() Stats {
	s := Stats{First: j.First(), Durable: j.Durable(), Last: j.Last(), Log: j.log.Stats()}
	j.mu.Lock()
	s.Holders = maps.Clone(j.holders)
	j.mu.Unlock()
	return s
}

// Close commits what was appended and closes the files. Readers end. Repeating it is harmless.
func (j *Journal) Close() error { return failure(j.log.Close()) }

// carryTimeout bounds the wait for carried entries: on a full disk their commit may wait for the space that the trim would free.
const carryTimeout = 30 * time.Second

// SkipTo leaves out positions up to one: state that comes from another journal holds positions, and what is appended here must lie behind them.
// Durable on return; what is left out reads as a gap entry that LeftOut knows, and no recovery calls it a loss. A repeat is harmless.
func (j *Journal) SkipTo(ctx context.Context, upTo pipeline.Position) error {
	return failure(j.log.SkipTo(ctx, uint64(upTo)))
}
