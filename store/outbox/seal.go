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
	wrote := false
	for _, s := range o.sorted() {
		r, w, err := s.seal(b)
		if err != nil {
			return nil, fmt.Errorf("seal barrier %d: %w", b.ID, err)
		}
		wrote = wrote || w
		if r.UID != "" {
			ranges = append(ranges, r)
		}
	}
	before, err := o.writeMarks(1)
	if err != nil {
		return nil, fmt.Errorf("seal barrier %d: %w", b.ID, err)
	}
	if o.log.Durable() < o.log.Last() {
		if err := o.log.Sync(ctx); err != nil {
			return nil, fmt.Errorf("seal barrier %d: %w", b.ID, err)
		}
	}
	if o.faults.releaseAtSeal {
		o.Released(b.ID)
	}
	return ranges, o.trim(before)
}

// seal writes what barrier b covers; it is durable with the next sync.
func (s *Stream) seal(b pipeline.Barrier) (r Range, wrote bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.attached {
		return r, false, nil
	}
	i := len(s.barriers) - 1
	for i >= 0 && s.barriers[i].id != b.ID {
		i--
	}
	if i < 0 {
		return r, false, fmt.Errorf("%w: stream %s", ErrBarrier, s.uid)
	}
	seq := s.barriers[i].seq
	if wrote, err = s.write(seq); err != nil {
		return r, wrote, err
	}
	gaps, err := s.writeGaps()
	if err != nil {
		return r, wrote, err
	}
	r = Range{UID: s.uid, Generation: s.generation, Confirmed: s.confirmed, Last: seq, ChainConfirmed: s.chain}
	return r, wrote || gaps, nil
}

// writeMarks appends the confirmed marks of all streams when at least freed bytes in the log are confirmed and no
// earlier marks say so. It gives the log position below which nothing is needed once the marks are durable; 0: nothing to trim.
// All locks are held, so that no bound or confirmation is logged between a stream's line and the record. sealing is held.
func (o *Outbox) writeMarks(freed int64) (before uint64, err error) {
	streams := o.sorted()
	for _, s := range streams {
		s.mu.Lock()
		defer s.mu.Unlock()
	}
	var sum int64
	for _, s := range streams {
		sum += s.freed
	}
	if sum < freed {
		return 0, nil
	}
	marks := make([]markEntry, 0, len(streams))
	before = ^uint64(0)
	for _, s := range streams {
		// A chunk whose gap is not logged yet must not be trimmed: without the gap the range would not be whole.
		if _, err := s.writeGaps(); err != nil {
			return 0, err
		}
		marks = append(marks, s.markEntry())
		before = min(before, s.oldestAt())
	}
	at, err := o.log.AppendReserved(appendMarks(nil, marks))
	if err != nil {
		return 0, fmt.Errorf("write marks: %w", err)
	}
	for _, s := range streams {
		s.freed = 0
	}
	if o.faults.trimBeforeMarks {
		return 0, o.log.Trim(min(before, at))
	}
	return min(before, at), nil
}

// trim recycles the log below a position; the marks that allow it are durable.
func (o *Outbox) trim(before uint64) error {
	if before == 0 {
		return nil
	}
	if err := o.log.Trim(before); err != nil {
		return fmt.Errorf("trim outbox: %w", err)
	}
	o.signalRoom()
	return nil
}

// reclaim trims between checkpoints when at least freed bytes could go: for a sender that confirms a long backlog, and for a full log.
func (o *Outbox) reclaim(ctx context.Context, freed int64) error {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	before, err := o.writeMarks(freed)
	if err != nil || before == 0 {
		return err
	}
	if err := o.log.Sync(ctx); err != nil {
		return err
	}
	return o.trim(before)
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
		s.mu.Unlock()
		signal(s.wake)
	}
}
