// Package outbox keeps the results of a pipeline until the upstream holds them. It promises: a result that a committed
// checkpoint relies on survives a power cut until it is confirmed; a result past the checkpoint that is restored is void;
// a gap is durable before anyone can send it. FORMAT.md has the records, DESIGN.md the rules and who may call what.
//
// One Outbox serves one pipeline; each sink of the pipeline has a Stream in it, with a log of its own: what one sink cannot deliver
// takes no space from another. The task that owns a sink calls Emit and Barrier, the checkpoint coordinator Seal and Released, the
// stream's sender all the rest.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

// Options says where an Outbox lives.
type Options struct {
	FS  disk.FS
	Dir string
	Config
	// Stamp gives the agent's time for frames and TTL.
	Stamp  func() pipeline.Stamp
	Codec  *log.Codec // of the log; nil: one of its own
	Logger *slog.Logger
	// Divergence is called when a replayed result differs from what upstream holds under its number. nil: it is logged. It must not call the outbox.
	Divergence func(sink string, seq, held, made uint64)
	// Failed is called once for each log that failed: it takes nothing any more until the outbox is closed and opened again. It must not block.
	Failed func(error)
	// Waiting is called with each try of a write that waits until the disk takes it. It must not block. Optional.
	Waiting func()
}

// Recovery tells what Open found.
type Recovery struct {
	Records uint64 // in the logs
	Results uint64 // waiting, before Cut
	Bytes   int64
	Damaged []string // records that did not decode; they count as missing
}

// Range is what a checkpoint's manifest says of one stream: the checkpoint relies on the results (Confirmed, Last], and
// on upstream holding those up to Confirmed.
type Range struct {
	UID            string
	Generation     uint64
	Confirmed      uint64
	Last           uint64
	ChainConfirmed uint64
}

// Outbox is safe for concurrent use. mu guards the map; each stream has its own lock, and nothing holds two of them.
type Outbox struct {
	o       Options
	config  Config
	stamp   func() pipeline.Stamp
	logger  *slog.Logger
	diverge func(sink string, seq, held, made uint64)
	faults  faults
	// stuckAfter is how long a full log without any released result is waited for: a checkpoint may be under way.
	stuckAfter time.Duration

	mu      sync.Mutex
	streams map[string]*Stream
	closed  bool

	inc   atomic.Uint64 // Incarnation: major in the high half
	ready atomic.Bool   // Cut was called: results may be emitted and handed out
	held  atomic.Bool   // see HoldBack
	live  []string      // uids that HoldBack leaves alone; set before Cut

	sealing sync.Mutex // one Seal, Cut or Drop at a time
}

// faults are planted by tests to show that they would be found. All false in production: nothing else sets them but the environment in a build with -tags weirfault.
type faults struct {
	skipNotSynced, cutNotSynced, trimBeforeMarks, releaseAtSeal, keepAtCut, dropInFlight, expireSilently, sharedPin, miscount bool
}

// Open recovers the outbox. Nothing can be emitted or read before Cut has said where the pipeline resumes.
func Open(o Options) (*Outbox, *Recovery, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Stamp == nil {
		o.Stamp = func() pipeline.Stamp { return pipeline.Stamp{} }
	}
	if err := o.Config.Validate(); err != nil {
		return nil, nil, err
	}
	if o.Codec == nil {
		o.Codec = log.NewCodec()
	}
	b := &Outbox{o: o, config: o.Config, stamp: o.Stamp, logger: o.Logger, diverge: o.Divergence, streams: map[string]*Stream{}, stuckAfter: time.Minute, faults: plantedFaults()}
	rec := &Recovery{}
	if err := b.recover(rec); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open outbox: %w", err), b.Close())
	}
	return b, rec, nil
}

// Stream gives the stream of a sink and makes it when it is new. It is called once per sink and run of the pipeline; an
// attached stream whose pipeline restarts keeps its results and takes the new options.
func (o *Outbox) Stream(sink string, opt StreamOptions) (*Stream, error) {
	if err := opt.Validate(); err != nil {
		return nil, fmt.Errorf("stream %s: %w", sink, err)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, ErrClosed
	}
	s, err := o.stream(sink)
	if err != nil {
		return nil, err
	}
	s.log.SetMaxBytes(o.config.logBytes(opt.MaxBytes))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opt = opt
	if !s.attached {
		s.attached = true
		m := pipeline.SinkMark{UID: sink, Generation: max(1, s.generation)}
		if s.marked {
			m.Seq, m.Chain = s.engine, s.engineChain
		}
		s.resume(m)
	}
	return s, nil
}

// stream finds a stream, or makes it with an empty log; mu is held.
func (o *Outbox) stream(uid string) (*Stream, error) {
	if s := o.streams[uid]; s != nil {
		return s, nil
	}
	s := newStream(o, uid)
	if err := s.openLog(streamDir(o.o.Dir, uid), &Recovery{}); err != nil { // what is in it was forgotten
		return nil, err
	}
	s.uid, s.forgotten = uid, false
	o.streams[uid] = s
	return s, nil
}

// sorted gives the streams in order of uid.
func (o *Outbox) sorted() []*Stream {
	o.mu.Lock()
	defer o.mu.Unlock()
	list := make([]*Stream, 0, len(o.streams))
	for _, s := range o.streams {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *Stream) int { return strings.Compare(a.uid, b.uid) })
	return list
}

// Sinks names the streams that hold something or were asked for, sorted.
func (o *Outbox) Sinks() []string {
	var names []string
	for _, s := range o.sorted() {
		names = append(names, s.uid)
	}
	return names
}

// Ends gives, sorted, each stream that ever had a result: its generation and the last sequence given out. Chains are not told.
func (o *Outbox) Ends() (marks []pipeline.SinkMark) {
	for _, s := range o.sorted() {
		s.mu.Lock()
		if s.generation > 0 {
			marks = append(marks, pipeline.SinkMark{UID: s.uid, Generation: s.generation, Seq: s.last()})
		}
		s.mu.Unlock()
	}
	return marks
}

// Forget gives up the results of a sink that is no longer part of the plan. It is durable on return; repeating it is
// harmless. The stream must have no sender.
func (o *Outbox) Forget(ctx context.Context, sink string) error {
	o.mu.Lock()
	s := o.streams[sink]
	delete(o.streams, sink)
	o.mu.Unlock()
	if s == nil {
		return nil
	}
	s.close()
	if _, err := s.log.AppendReserved(appendForget(nil, sink)); err != nil {
		return fmt.Errorf("forget stream %s: %w", sink, err)
	}
	if err := s.log.Sync(ctx); err != nil {
		return fmt.Errorf("forget stream %s: %w", sink, err)
	}
	if err := s.log.Trim(s.log.Last()); err != nil {
		return fmt.Errorf("forget stream %s: %w", sink, err)
	}
	return s.closeLog()
}

// Stats are those of each stream, by uid, and sums over their logs.
type Stats struct {
	Streams   map[string]StreamStats
	LiveBytes int64  // of the logs' segments in use
	DiskBytes int64  // with the spare ones
	Pages     uint64 // of 4 KiB written since Open: about what reached the device
	Syncs     uint64
}

// Stats is cheap enough for a scrape.
func (o *Outbox) Stats() Stats {
	st := Stats{Streams: map[string]StreamStats{}}
	for _, s := range o.sorted() {
		st.Streams[s.uid] = s.Stats()
		l := s.log.Stats()
		st.LiveBytes, st.DiskBytes = st.LiveBytes+l.LiveBytes, st.DiskBytes+l.DiskBytes
		st.Pages, st.Syncs = st.Pages+l.PagesWritten, st.Syncs+l.Syncs
	}
	return st
}

// Close ends every stream: blocked calls return ErrClosed. Results in memory that no checkpoint covers are lost; they are
// made again from the journal.
func (o *Outbox) Close() error {
	o.mu.Lock()
	if o.closed {
		o.mu.Unlock()
		return nil
	}
	o.closed = true
	o.mu.Unlock()
	var errs []error
	for _, s := range o.sorted() {
		s.close()
		errs = append(errs, s.closeLog())
	}
	return errors.Join(errs...)
}
