package outbox

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Seal makes the results up to barrier b durable, those excepted that upstream has confirmed, and tells what the
// manifest must say of each attached stream. It comes before the manifest; results become visible by Released, after it.
// When the log need not be written it costs nothing. A failed Seal fails the checkpoint; the next one tries again.
func (o *Outbox) Seal(ctx context.Context, b pipeline.Barrier) ([]Range, error) {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	var ranges []Range
	streams := o.sorted()
	before := make([]uint64, len(streams)) // all are written before the first sync, so that each log has one commit
	for i, s := range streams {
		r, err := s.seal(b)
		if err == nil {
			before[i], err = s.writeMarks(1)
		}
		if err != nil {
			return nil, fmt.Errorf("seal barrier %d: %w", b.ID, err)
		}
		if r.UID != "" {
			ranges = append(ranges, r)
		}
	}
	for i, s := range streams {
		if s.log.Durable() < s.log.Last() {
			if err := s.log.Sync(ctx); err != nil {
				return nil, fmt.Errorf("seal barrier %d: %w", b.ID, err)
			}
		}
		if err := s.trim(before[i]); err != nil {
			return nil, err
		}
	}
	if o.faults.releaseAtSeal {
		o.Released(b.ID)
	}
	return ranges, nil
}

// seal writes what barrier b covers; it is durable with the next sync.
func (s *Stream) seal(b pipeline.Barrier) (r Range, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.attached {
		return r, nil
	}
	i := len(s.barriers) - 1
	for i >= 0 && s.barriers[i].id != b.ID {
		i--
	}
	if i < 0 {
		return r, fmt.Errorf("%w: stream %s", ErrBarrier, s.uid)
	}
	seq := s.barriers[i].seq
	s.expire() // what need not be kept need not be written
	if _, err = s.write(seq); err != nil {
		return r, err
	}
	if _, err := s.writeGaps(); err != nil {
		return r, err
	}
	r = Range{UID: s.uid, Generation: s.generation, Confirmed: s.confirmed, Last: seq, ChainConfirmed: s.chain}
	return r, nil
}

// writeMarks appends the confirmed marks when at least freed bytes in the log are confirmed and no earlier marks say so. It gives the log
// position below which nothing is needed once the marks are durable; 0: nothing to trim.
func (s *Stream) writeMarks(freed int64) (before uint64, err error) {
	s.mu.Lock() // so that no bound or confirmation is logged between the marks and the record
	defer s.mu.Unlock()
	if s.freed < freed {
		return 0, nil
	}
	// A chunk whose gap is not logged yet must not be trimmed: without the gap the range would not be whole.
	if _, err := s.writeGaps(); err != nil {
		return 0, err
	}
	before = s.oldestAt()
	at, err := s.log.AppendReserved(appendMarks(nil, []markEntry{s.markEntry()}))
	if err != nil {
		return 0, fmt.Errorf("write marks of %s: %w", s.uid, err)
	}
	s.freed = 0
	if s.o.faults.trimBeforeMarks {
		return 0, s.log.Trim(min(before, at))
	}
	return min(before, at), nil
}

// trim recycles the log below a position; the marks that allow it are durable.
func (s *Stream) trim(before uint64) error {
	if before == 0 || s.o.faults.sharedPin && s.o.anyWaits() {
		return nil
	}
	if err := s.log.Trim(before); err != nil {
		return fmt.Errorf("trim outbox log of %s: %w", s.uid, err)
	}
	signal(s.room)
	return nil
}

// reclaim trims between checkpoints when at least freed bytes could go: for a sender that confirms a long backlog, and for a full log.
func (s *Stream) reclaim(ctx context.Context, freed int64) error {
	before, err := s.writeMarks(freed)
	if err != nil || before == 0 {
		return err
	}
	if err := s.log.Sync(ctx); err != nil {
		return err
	}
	return s.trim(before)
}

// Released says that the checkpoint of a barrier has committed: the results up to it, and those of barriers that
// were aborted before it, become visible.
func (o *Outbox) Released(barrierID uint64) {
	for _, s := range o.sorted() {
		s.mu.Lock()
		n := 0
		for n < len(s.barriers) && s.barriers[n].id <= barrierID {
			s.released = max(s.released, s.barriers[n].seq)
			n++
		}
		if !o.faults.releaseAtSeal {
			s.barriers = append(s.barriers[:0], s.barriers[n:]...)
		}
		if s.opt.OnFull == DropOldest && s.opt.MaxBytes > 0 && s.bytes > s.opt.MaxBytes {
			s.dropOldest(s.opt.MaxBytes) // what could not be dropped before it was released; the next Emit may be long in coming
		}
		s.mu.Unlock()
		signal(s.wake)
	}
}
