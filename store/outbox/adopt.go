package outbox

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// adoptBytes of results are in memory at a time while a stream adopts.
const adoptBytes = 1 << 20

// Adopt makes a stream hold what a savepoint holds of it: results behind `from`, which upstream is known to hold, in the generation of from. What
// the stream held past from is void. results calls each for them in order, data and gaps; they may be on flash when it returns, and are
// durable at the next Cut, which must name the last of them as the mark. It comes after Stream and before that Cut; a repeat, after a crash
// too, is harmless. Results that upstream is known to hold by now are left out: the range that it gives is what the manifest must say.
func (o *Outbox) Adopt(ctx context.Context, from pipeline.SinkMark, inc Incarnation, results func(each func(r *pipeline.Result) error) error) (Range, error) {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	o.mu.Lock()
	s, err := o.stream(from.UID)
	o.mu.Unlock()
	if err != nil {
		return Range{}, fmt.Errorf("adopt results of %s: %w", from.UID, err)
	}
	o.setIncarnation(inc)
	if err := s.cutTo(from, true, inc); err != nil {
		return Range{}, fmt.Errorf("adopt results of %s: %w", from.UID, err)
	}
	s.mu.Lock()
	s.advance(from.Seq, from.Chain)
	s.mu.Unlock()
	if err := results(func(r *pipeline.Result) error { return s.adopt(ctx, r) }); err != nil {
		return Range{}, fmt.Errorf("adopt results of %s: %w", from.UID, err)
	}
	if err := s.adopted(ctx); err != nil {
		return Range{}, fmt.Errorf("adopt results of %s: %w", from.UID, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Range{UID: s.uid, Generation: s.generation, Confirmed: s.confirmed, Last: s.engine + s.shift, ChainConfirmed: s.chain}, nil
}

// adopt takes one result or gap as if the pipeline had made it.
func (s *Stream) adopt(ctx context.Context, r *pipeline.Result) error {
	s.mu.Lock()
	if r.Seq != s.engine+1 {
		s.mu.Unlock()
		return fmt.Errorf("%w: sequence %d after %d", ErrSequence, r.Seq, s.engine)
	}
	if r.Kind == pipeline.ResultGap {
		s.open = false
		s.addGap(gap{first: r.Seq + s.shift, last: r.Last + s.shift, chain: r.Chain, pos: r.Pos, reason: string(r.Payload), inc: s.o.Incarnation()})
		s.engine, s.engineChain = r.Last, r.Chain
	} else {
		own := *r
		own.Payload = append([]byte(nil), r.Payload...)
		s.take(&own)
	}
	full := s.memory > adoptBytes
	s.mu.Unlock()
	if full {
		return s.adopted(ctx)
	}
	return nil
}

// adopted writes what was adopted and lets go of it in memory.
func (s *Stream) adopted(ctx context.Context) error {
	s.mu.Lock()
	s.open = false
	_, err := s.write(^uint64(0))
	if err == nil {
		_, err = s.writeGaps()
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if err := s.log.Sync(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.chunks {
		if c := &s.chunks[i]; c.at != 0 {
			s.unload(c)
		}
	}
	return nil
}
