package outbox

import (
	"context"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// fillState says why fill stopped.
type fillState uint8

const (
	filled     fillState = iota // the batch is complete, or nothing more is visible
	needChunk                   // the next results are only in the log
	needSync                    // the next result is a gap that is not durable
	waitBounds                  // a fixed batch is not yet made again as a whole
)

// Next gives the visible results behind the cursor and moves the cursor behind them; it waits until there is one. A
// batch whose bounds were fixed by Bind comes back with the same bounds, whatever the limits. The slice is valid until the
// next call; payloads stay valid as long as they are referenced. At least one result is given even when it is larger
// than maxBytes. A gap comes once its record is durable.
func (s *Stream) Next(ctx context.Context, maxResults, maxBytes int) ([]pipeline.Result, error) {
	s.mu.Lock()
	s.out = s.out[:0]
	from := s.cursor
	s.mu.Unlock()
	for {
		s.mu.Lock()
		if err := s.usable(); err != nil {
			s.mu.Unlock()
			return nil, err
		}
		if s.cursor != from || s.loaded.invalid { // Seek or Cut came between
			from, s.out, s.loaded.invalid = s.cursor, s.out[:0], false
		}
		if len(s.out) == 0 {
			s.expire()
		}
		state, at := s.fill(maxResults, maxBytes)
		if len(s.out) > 0 && (s.boundLast <= s.cursor || s.endOf() >= s.boundLast) {
			s.cursor = s.endOf()
			out := s.out
			if plantedEarly {
				s.advance(s.cursor, out[len(out)-1].Chain)
			}
			s.mu.Unlock()
			return out, nil
		}
		s.mu.Unlock()
		if err := s.overcome(ctx, state, at); err != nil {
			return nil, err
		}
	}
}

// overcome does the I/O, or the waiting, that fill needs to go on.
func (s *Stream) overcome(ctx context.Context, state fillState, at uint64) error {
	switch state {
	case needChunk:
		return s.loaded.load(ctx, s.log, at)
	case needSync:
		s.mu.Lock()
		_, err := s.writeGaps()
		s.mu.Unlock()
		if err != nil {
			return err
		}
		return s.log.Sync(ctx)
	}
	select {
	case <-s.wake:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// endOf is the last sequence that out covers.
func (s *Stream) endOf() uint64 {
	if n := len(s.out); n > 0 {
		return s.out[n-1].Last
	}
	return s.cursor
}

// fill appends to out what follows it. at is the log position that needChunk needs.
func (s *Stream) fill(maxResults, maxBytes int) (state fillState, at uint64) {
	if !s.o.ready.Load() {
		return filled, 0
	}
	limit := s.visible()
	if s.boundLast > s.cursor {
		if limit < s.boundLast {
			return waitBounds, 0
		}
		limit, maxResults, maxBytes = s.boundLast, int(s.boundLast-s.cursor), math.MaxInt
	}
	size := int(payloadBytes(s.out))
	for seq := s.endOf() + 1; seq <= limit && len(s.out) < maxResults; {
		if g := s.gapAt(seq); g != nil {
			if g.at == 0 || g.at > s.log.Durable() && !s.o.faults.skipNotSynced {
				return needSync, 0
			}
			last := min(g.last, limit)
			r := pipeline.Result{Seq: seq, Last: last, Pos: g.pos, Kind: pipeline.ResultGap, Time: pipeline.NoTime, Payload: []byte(g.reason)}
			if last == g.last {
				r.Chain = g.chain
			}
			s.out = append(s.out, r)
			seq = last + 1
			continue
		}
		i := s.chunkAt(seq)
		if i < 0 {
			return waitBounds, 0 // not made again yet
		}
		c := &s.chunks[i]
		results := c.results
		if results == nil {
			if results = s.loaded.results(c); results == nil {
				return needChunk, c.at
			}
		}
		end := min(limit, c.last, s.gapAfter(seq)-1)
		for ; seq <= end && len(s.out) < maxResults; seq++ {
			r := results[seq-c.first]
			if len(s.out) > 0 && size+len(r.Payload) > maxBytes {
				return filled, 0
			}
			size += len(r.Payload)
			s.out = append(s.out, r)
		}
	}
	return filled, 0
}

// expire turns chunks that waited longer than the TTL and were not sent into gaps. Next, Seal and an Emit that finds the stream full
// call it. mu is held.
func (s *Stream) expire() {
	if s.opt.TTL == 0 {
		return
	}
	oldest := s.o.stamp().Elapsed - int64(s.opt.TTL)
	visible, pinned := s.visible(), s.pinned()
	for i := 0; i < len(s.chunks); {
		c := &s.chunks[i]
		if c.last > visible || c.elapsed >= oldest {
			return
		}
		if c.first <= pinned || s.gapAt(c.last) != nil {
			i++
			continue
		}
		if s.o.faults.expireSilently { // the results vanish, their numbers look confirmed
			last := c.last
			s.cursor = max(s.cursor, last)
			s.confirm(last, 0)
			continue
		}
		s.replaceChunk(i, reasonExpired)
	}
}

// Seek takes the end of the unbroken run that upstream holds (uplink.Endpoint.Open) and puts the cursor there. known
// results were waiting here although upstream held them: an answer was lost. lostFirst..lostLast (0: none) were
// confirmed once and upstream holds them no more: they are gone, and a gap must be sent in their place.
func (s *Stream) Seek(generation, seq, chain uint64) (known, lostFirst, lostLast uint64, err error) {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return 0, 0, 0, err
	}
	switch {
	case generation > s.generation:
		return 0, 0, 0, fmt.Errorf("seek %s: upstream is in generation %d, this outbox in %d", s.uid, generation, s.generation)
	case generation < s.generation:
		held := s.start
		if i := s.opt.Inherited; generation == i.Generation && s.opt.Mode != AtLeastOnce { // what waits here up to there has the same numbers upstream
			held = max(held, i.Seq)
		}
		seq, chain = min(seq, held), 0
	case seq == 0:
		seq = s.start // a generation that upstream has just begun takes any start
	}
	if s.opt.Mode == AtLeastOnce && !s.sought && seq > s.fresh {
		if err := s.moveUp(seq - s.fresh); err != nil {
			return 0, 0, 0, err
		}
	}
	s.sought = true
	if seq < s.confirmed && generation == s.generation {
		lostFirst, lostLast = seq+1, s.confirmed
		s.stats.Lost += s.confirmed - seq
	}
	if seq > s.confirmed {
		known = min(seq, max(s.last(), s.confirmed)) - s.confirmed
		s.compareHeld(seq, chain)
		s.advance(seq, chain)
	}
	if err := s.settleDurably(); err != nil {
		return 0, 0, 0, err
	}
	s.cursor = s.confirmed
	signal(s.wake)
	return known, lostFirst, lostLast, nil
}

// settleDurably forgets the ghosts that upstream does not hold: those sequences are made again and sent as data. A second
// crash would count them as dropped otherwise.
func (s *Stream) settleDurably() error {
	if len(s.ghosts) == 0 { // what upstream holds of them was counted when the mark moved
		return nil
	}
	s.settle(s.confirmed)
	if _, err := s.log.AppendReserved(appendSettled(nil, s.uid, s.confirmed)); err != nil {
		return fmt.Errorf("settle gaps of %s: %w", s.uid, err)
	}
	return s.log.Sync(context.Background())
}

// compareHeld compares the chain of a held result with upstream's.
func (s *Stream) compareHeld(seq, chain uint64) {
	i := s.chunkAt(seq)
	if i < 0 {
		return
	}
	c := &s.chunks[i]
	switch {
	case c.results != nil:
		s.compare(seq, chain, c.results[seq-c.first].Chain)
	case c.last == seq && c.chainLast != 0:
		s.compare(seq, chain, c.chainLast)
	}
}

// moveUp gives results that were never sent numbers behind those that upstream holds (at-least-once).
func (s *Stream) moveUp(delta uint64) error {
	from := s.fresh + 1
	if _, err := s.log.AppendReserved(appendRenumber(nil, &renumberRecord{uid: s.uid, from: from, delta: delta})); err != nil {
		return fmt.Errorf("renumber %s: %w", s.uid, err)
	}
	if err := s.log.Sync(context.Background()); err != nil { // before any of them is sent under its new number
		return fmt.Errorf("renumber %s: %w", s.uid, err)
	}
	s.renumber(from, delta)
	for i := range s.barriers {
		s.barriers[i].seq += delta
	}
	s.shift += delta
	s.loaded.invalid = true
	return nil
}

// Resume puts the cursor back to the confirmed mark, for an endpoint that keeps no progress.
func (s *Stream) Resume() {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sought = true
	s.cursor = s.confirmed
	signal(s.wake)
}

// Bind fixes the bounds of the batch that is about to be sent, durably: after any crash Next gives the same batch. It implies
// that everything before first is confirmed.
func (s *Stream) Bind(ctx context.Context, first, last uint64) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	if s.boundFirst == first && s.boundLast == last {
		s.mu.Unlock()
		return nil
	}
	s.bind(first, last)
	rec := boundRecord{head: head{uid: s.uid, generation: s.generation, inc: s.o.Incarnation()}, first: first, last: last}
	_, err := s.log.AppendReserved(appendBound(nil, &rec))
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("bind batch of %s: %w", s.uid, err)
	}
	return s.log.Sync(ctx)
}

func (q *queue) bind(first, last uint64) {
	q.confirm(first-1, 0)
	if last > q.confirmed {
		q.boundFirst, q.boundLast = first, last
	}
}

// Confirm says that upstream holds everything up to seq durably. What it covers is forgotten; the mark reaches the log
// with later marks or the manifest: until then Open finds it out from upstream.
func (s *Stream) Confirm(seq, chain uint64) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	if err := s.usable(); err != nil {
		s.mu.Unlock()
		return err
	}
	s.advance(seq, chain)
	reclaim := s.freed >= s.o.config.ReclaimBytes
	s.mu.Unlock()
	signal(s.room)
	if reclaim {
		return s.reclaim(context.Background(), s.o.config.ReclaimBytes)
	}
	return nil
}

// advance moves the confirmed mark and keeps the accounts of memory and of the log. mu is held.
func (s *Stream) advance(seq, chain uint64) {
	if seq <= s.confirmed {
		return
	}
	s.confirm(seq, chain)
	s.open = s.open && len(s.chunks) > 0
	s.cursor = max(s.cursor, s.confirmed)
}

// Skip replaces a range by a gap: upstream will never take it. Durable on return; the dead letter must be durable before.
func (s *Stream) Skip(ctx context.Context, first, last uint64, reason string) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	s.mu.Lock()
	g := gap{first: first, last: last, reason: reason, inc: s.o.Incarnation()}
	for i := range s.out {
		if s.out[i].Last == last {
			g.chain, g.pos = s.out[i].Chain, s.out[i].Pos
		}
	}
	s.addGap(g)
	s.open = s.open && len(s.chunks) > 0 && s.chunks[len(s.chunks)-1].last > last
	_, err := s.writeGaps()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if s.o.faults.skipNotSynced {
		return nil
	}
	return s.log.Sync(ctx)
}
