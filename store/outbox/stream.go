package outbox

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// Stream is the queue of one sink. It implements pipeline.ResultSink for the task that owns the sink; the methods of
// next.go are for the one goroutine that sends. Everything is guarded by mu but the fields marked "sender".
type Stream struct {
	o    *Outbox
	opt  StreamOptions
	log  *log.Log
	wake chan struct{} // a token when results may have become visible
	room chan struct{} // a token when bytes were freed

	sending sync.Mutex // held by what moves the confirmed mark, one at a time; a Pin keeps them waiting. Before mu.
	unwatch func()

	mu sync.Mutex
	queue
	attached, marked, closed bool
	forgotten                bool // the last record says that the stream is no part of the plan
	open                     bool // the last chunk takes more results
	engine                   uint64
	engineChain              uint64 // chain of the pipeline's last result
	shift                    uint64 // at-least-once: wire sequence = the pipeline's + shift
	fresh                    uint64 // at-least-once: wire sequences past it were never sent before the first Seek
	sought                   bool
	released                 uint64 // checkpoint commit: visible up to here
	withheldAt               uint64 // visible too, when withheld
	withheld                 bool   // as with checkpoint commit from now on
	barriers                 []barrierMark
	cursor                   uint64 // the sender has what lies up to here
	encoded                  []byte
	stats                    StreamStats
	untold                   uint64 // results given up since the last line about it
	toldAt                   int64  // agent life at that line, ns; 0 none

	out    []pipeline.Result // sender: result of the last Next
	loaded readback          // sender
}

type barrierMark struct{ id, seq uint64 }

// StreamStats counts sequences since Open; Confirmed, Dropped, Rejected and the causes since the stream began. The last sequence is the sum of the
// first three and Held.
type StreamStats struct {
	Emitted     uint64 // by the pipeline, replays included
	Known       uint64 // replayed and dropped: upstream holds them
	Divergences uint64
	Confirmed   uint64 // left as data
	Dropped     uint64 // left as gaps: expired, overflowed
	Rejected    uint64 // left as gaps: upstream refused them
	Expired     uint64 // became gaps by TTL, confirmed or not; the next too
	Overflowed  uint64 // became gaps by drop_oldest
	Spilled     uint64 // results written to the log
	Lost        uint64 // held by upstream once, and no more

	Blocked       bool   // an Emit waits for room
	Held          uint64 // sequences that are here, as results or gaps
	Shift         uint64 // at-least-once: by how much the numbers on the wire are ahead of the numbers of the pipeline
	Waiting       uint64 // sequences not confirmed
	WaitingBytes  int64
	MemoryBytes   int64
	DiskBytes     int64 // of its log, with the spare segments
	Last          uint64
	ConfirmedUpTo uint64
	VisibleUpTo   uint64
}

func newStream(o *Outbox, uid string) *Stream {
	return &Stream{o: o, queue: queue{uid: uid, miscounts: o.faults.miscount || plantedMiscount}, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// Stats is a consistent view.
func (s *Stream) Stats() StreamStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.DiskBytes = s.log.Stats().DiskBytes
	rejected := s.causes[causeRejected]
	st.Confirmed, st.Dropped, st.Rejected = s.confirmedN, s.droppedN-rejected, rejected
	st.Held, st.Shift = s.waiting(), s.shift
	c := s.causes
	c.count(s.gaps, s.confirmed+1, ^uint64(0))
	st.Expired, st.Overflowed = c[causeExpired], c[causeFull]
	st.Last, st.ConfirmedUpTo, st.VisibleUpTo = s.last(), s.confirmed, s.visible()
	st.Waiting, st.WaitingBytes, st.MemoryBytes = st.Last-s.confirmed, s.bytes, s.memory
	return st
}

// visible is the last sequence that the sender may have.
func (s *Stream) visible() uint64 {
	if s.o.held.Load() && !s.live() {
		return s.confirmed
	}
	if s.opt.Mode == CheckpointCommit {
		return min(s.released, s.last())
	}
	if s.withheld {
		return min(max(s.released, s.withheldAt), s.last())
	}
	return s.last()
}

func (s *Stream) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	signal(s.wake)
	signal(s.room)
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *Stream) usable() error {
	if s.closed {
		return ErrClosed
	}
	return nil
}

// Emit takes the pipeline's next results. Those that upstream is known to hold are compared by chain and dropped. It
// blocks while the stream is full and something can drain. Nothing is durable on return.
func (s *Stream) Emit(ctx context.Context, results []pipeline.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.o.ready.Load() {
		return ErrNotCut
	}
	for i := range results {
		if err := s.usable(); err != nil {
			return err
		}
		r := &results[i]
		if r.Seq != s.engine+1 || r.Kind != pipeline.ResultData {
			return fmt.Errorf("emit to %s: %w: kind %d, sequence %d after %d", s.uid, ErrSequence, r.Kind, r.Seq, s.engine)
		}
		if s.opt.MaxBytes > 0 && s.bytes+int64(len(r.Payload)) > s.opt.MaxBytes {
			signal(s.wake)
			if err := s.makeRoom(ctx, int64(len(r.Payload))); err != nil {
				return err
			}
		}
		s.take(r)
	}
	signal(s.wake)
	if s.memory > s.o.config.WindowBytes {
		return s.spill(ctx)
	}
	return nil
}

// take adds one result, or drops it when upstream holds it.
func (s *Stream) take(r *pipeline.Result) {
	s.engine, s.engineChain = r.Seq, r.Chain
	s.stats.Emitted++
	seq := r.Seq + s.shift
	if seq <= s.confirmed {
		s.stats.Known++
		if seq == s.confirmed {
			s.compare(seq, s.chain, r.Chain)
		}
		return
	}
	n := len(s.chunks)
	if !s.open || n == 0 || len(s.chunks[n-1].results) >= s.o.config.ChunkResults || s.chunks[n-1].bytes >= s.o.config.ChunkBytes {
		s.chunks = append(s.chunks, chunk{first: seq, recorded: seq, inc: s.o.Incarnation(), results: s.spareResults()})
		s.open = true
		n = len(s.chunks)
	}
	c := &s.chunks[n-1]
	c.results = append(c.results, *r)
	last := &c.results[len(c.results)-1]
	last.Seq, last.Last = seq, seq
	c.last, c.chainLast = seq, r.Chain
	c.bytes += int64(len(r.Payload))
	s.bytes += int64(len(r.Payload))
	s.memory += int64(len(r.Payload))
	if s.opt.TTL > 0 {
		c.elapsed = s.o.stamp().Elapsed
	}
}

// compare reports a replayed result whose chain is not the one that upstream holds.
func (s *Stream) compare(seq, held, made uint64) {
	if held == 0 || made == 0 || held == made || s.opt.Mode == AtLeastOnce {
		return
	}
	s.stats.Divergences++
	if s.o.diverge != nil {
		s.o.diverge(s.uid, seq, held, made)
		return
	}
	s.o.logger.Error("replayed result differs from what upstream holds", "sink", s.uid, "seq", seq)
}

func (s *Stream) spareResults() []pipeline.Result {
	if n := len(s.spare); n > 0 {
		r := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return r
	}
	return make([]pipeline.Result, 0, 64)
}

// Barrier remembers what belongs to checkpoint b. It does no I/O.
func (s *Stream) Barrier(_ context.Context, b pipeline.Barrier) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	s.open = false
	s.barriers = append(s.barriers, barrierMark{id: b.ID, seq: s.engine + s.shift})
	return nil
}

// spill writes closed chunks to the log and lets go of payloads that can be read back, the newest first, until half of the
// window is left. A full log is no error here: the results stay in memory and the stream waits for room.
func (s *Stream) spill(ctx context.Context) error {
	s.open = false
	_, err := s.write(^uint64(0))
	if errors.Is(err, log.ErrFull) {
		return s.waitLog(ctx)
	}
	if err != nil {
		return err
	}
	s.mu.Unlock()
	err = s.log.Sync(ctx)
	s.mu.Lock()
	if err != nil {
		return fmt.Errorf("spill results of %s: %w", s.uid, err)
	}
	s.evict(s.log.Durable())
	return nil
}

// evict lets go of payloads that are durable in the log, the newest first.
func (s *Stream) evict(durable uint64) {
	for i := len(s.chunks) - 1; i >= 0 && s.memory > s.o.config.WindowBytes/2; i-- {
		c := &s.chunks[i]
		if c.results != nil && c.at != 0 && c.at <= durable && c.first > s.cursor {
			s.unload(c)
		}
	}
}

// write appends the chunks up to seq that are not in the log, without what is confirmed. It tells whether it wrote.
func (s *Stream) write(seq uint64) (wrote bool, err error) {
	for i := range s.chunks {
		c := &s.chunks[i]
		if c.first > seq {
			break
		}
		if c.at != 0 {
			continue
		}
		if c.first <= s.confirmed { // its head left already
			n := s.confirmed + 1 - c.first
			gone := payloadBytes(c.results[:n])
			c.chainBefore = c.results[n-1].Chain
			c.results = c.results[n:]
			c.first += n
			c.bytes -= gone
			s.bytes -= gone
			s.memory -= gone
		}
		c.recorded = c.first
		h := head{uid: s.uid, generation: s.generation, inc: c.inc}
		s.encoded = appendChunk(s.encoded[:0], &h, s.chainBefore(i), c.results)
		if c.at, err = s.log.Append(s.encoded); err != nil {
			c.at = 0
			return wrote, fmt.Errorf("write results of %s: %w", s.uid, err)
		}
		wrote = true
		s.stats.Spilled += c.count()
	}
	if cap(s.encoded) > 1<<20 {
		s.encoded = nil
	}
	return wrote, nil
}

// chainBefore is the chain of the result before chunk i, as far as it is known; appendChunk writes chains out where the
// first one does not follow from it.
func (s *Stream) chainBefore(i int) uint64 {
	c := &s.chunks[i]
	switch {
	case c.chainBefore != 0:
		return c.chainBefore
	case i > 0 && s.chunks[i-1].last == c.first-1:
		return s.chunks[i-1].chainLast
	case s.confirmed == c.first-1:
		return s.chain
	}
	return 0
}

// writeGaps appends the gaps that are not in the log yet.
func (s *Stream) writeGaps() (wrote bool, err error) {
	for i := range s.gaps {
		g := &s.gaps[i]
		if g.at != 0 {
			continue
		}
		rec := gapRecord{head: head{uid: s.uid, generation: s.generation, inc: g.inc}, first: g.first, last: g.last,
			chain: g.chain, pos: g.pos, reason: g.reason}
		if g.at, err = s.log.AppendReserved(appendGap(nil, &rec)); err != nil {
			g.at = 0
			return wrote, fmt.Errorf("write gap of %s: %w", s.uid, err)
		}
		wrote = true
	}
	return wrote, nil
}
