package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Whole checks the ranges of a checkpoint's manifest (RULES 10): every result past the confirmed mark is here. It
// changes nothing but the marks: that upstream holds the results up to Confirmed is a fact whichever checkpoint is
// restored. It must be called before Cut. ErrNotWhole names every missing range.
func (o *Outbox) Whole(ranges []Range) error {
	var errs []error
	for _, r := range ranges {
		o.mu.Lock()
		s, err := o.stream(r.UID)
		o.mu.Unlock()
		if err == nil {
			err = s.whole(r)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (s *Stream) whole(r Range) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation == 0 {
		s.generation = r.Generation
	}
	if r.Generation != s.generation && r.Last > s.start {
		return fmt.Errorf("%w: stream %s is in generation %d since sequence %d, the checkpoint is of generation %d at %d",
			ErrNotWhole, s.uid, s.generation, s.start, r.Generation, r.Last)
	}
	from := max(s.confirmed, r.Confirmed)
	if seq := s.missing(from, r.Last); seq != 0 {
		return fmt.Errorf("%w: stream %s needs results %d to %d, %d is the first missing", ErrNotWhole, s.uid, from+1, r.Last, seq)
	}
	if r.Generation == s.generation {
		s.advance(r.Confirmed, r.ChainConfirmed)
	}
	return nil
}

// Cut says that the pipeline resumes at a checkpoint (or at nothing: no marks) under an incarnation. Results past each
// mark are void, durably, before it returns (RULES 9): they are made again, and what upstream already holds is dropped then.
// A mark of a higher generation begins that generation at the mark. Streams that are attached and have no mark begin at 0.
// At-least-once streams keep what they hold.
func (o *Outbox) Cut(ctx context.Context, marks []pipeline.SinkMark, inc Incarnation) error {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	byUID := map[string]pipeline.SinkMark{}
	o.mu.Lock()
	for _, m := range marks {
		byUID[m.UID] = m
		if _, err := o.stream(m.UID); err != nil {
			o.mu.Unlock()
			return fmt.Errorf("cut stream %s: %w", m.UID, err)
		}
	}
	o.mu.Unlock()
	o.setIncarnation(inc)
	for _, s := range o.sorted() {
		m, ok := byUID[s.uid]
		err := s.cutTo(m, ok, inc)
		if err == nil && !o.faults.cutNotSynced {
			err = s.log.Sync(ctx)
		}
		if err != nil {
			return fmt.Errorf("cut stream %s: %w", s.uid, err)
		}
	}
	o.ready.Store(true)
	for _, s := range o.sorted() {
		signal(s.wake)
	}
	return nil
}

func (s *Stream) cutTo(m pipeline.SinkMark, marked bool, inc Incarnation) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !marked {
		if !s.attached {
			return nil
		}
		m = pipeline.SinkMark{UID: s.uid, Generation: max(1, s.generation)}
	}
	if m.Generation < s.generation {
		return fmt.Errorf("generation %d has ended, the outbox is in %d", m.Generation, s.generation)
	}
	rec := cutRecord{head: head{uid: s.uid, generation: m.Generation, inc: inc}, seq: m.Seq, chain: m.Chain}
	if s.opt.Mode == AtLeastOnce {
		rec.seq, rec.chain = max(m.Seq, s.last()), 0
	}
	if !s.o.faults.keepAtCut && !(rec.seq == 0 && rec.generation == 1 && s.log.Last() < s.log.First()) { // a log that holds nothing has nothing to void
		if _, err := s.log.AppendReserved(appendCut(nil, &rec)); err != nil {
			return err
		}
	}
	if !s.o.faults.keepAtCut {
		s.cut(m.Generation, rec.seq, rec.chain)
	}
	s.marked = true
	s.resume(m)
	return nil
}

// resume sets what follows from the pipeline standing at a mark. mu is held.
func (s *Stream) resume(m pipeline.SinkMark) {
	s.generation = m.Generation
	s.engine, s.engineChain = m.Seq, m.Chain
	s.shift = 0
	if s.opt.Mode == AtLeastOnce {
		s.fresh = max(s.last(), m.Seq)
		s.shift, s.sought = s.fresh-m.Seq, false
	}
	s.open, s.barriers = false, nil
	s.released = m.Seq
	s.loaded.invalid = true
}

// Drop voids every entry of an incarnation that was rolled back (RULES 26). Durable on return; repeating it is harmless.
func (o *Outbox) Drop(ctx context.Context, inc Incarnation) error {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	for _, s := range o.sorted() {
		s.mu.Lock()
		s.drop(inc)
		s.loaded.invalid = true
		s.mu.Unlock()
		if s.log.Last() < s.log.First() {
			continue // nothing to void
		}
		_, err := s.log.AppendReserved(appendDrop(nil, inc))
		if err == nil {
			err = s.log.Sync(ctx)
		}
		if err != nil {
			return fmt.Errorf("drop incarnation %s of stream %s: %w", inc, s.uid, err)
		}
	}
	return nil
}

// Incarnation is the one that Cut gave, or the highest one found in the log.
func (o *Outbox) Incarnation() Incarnation {
	v := o.inc.Load()
	return Incarnation{Major: uint32(v >> 32), Minor: uint32(v)}
}

func (o *Outbox) setIncarnation(i Incarnation) { o.inc.Store(uint64(i.Major)<<32 | uint64(i.Minor)) }
