package outbox

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirstream/weir/pipeline"
)

// copyResults is how many results Copy takes at a time.
const copyResults = 256

// Waiting is where a stream stands: results past Confirmed are those that upstream is not known to hold.
type Waiting struct {
	Generation, Confirmed, Chain uint64 // Chain at Confirmed, 0 unknown
	Shift                        uint64 // at-least-once: what the numbers on the wire lie above the pipeline's
}

// Pin keeps every stream where it is: until Release, Confirm, Seek, Bind and Skip wait, so that nothing that waits goes away. The pipeline
// goes on. It is for a savepoint, and no longer than copying takes.
type Pin struct {
	streams map[string]*Stream
	once    sync.Once
}

// Pin waits for calls under way.
func (o *Outbox) Pin() *Pin {
	p := &Pin{streams: map[string]*Stream{}}
	for _, s := range o.sorted() {
		s.sending.Lock()
		p.streams[s.uid] = s
	}
	return p
}

// Release lets the senders go on. A repeat is harmless.
func (p *Pin) Release() {
	p.once.Do(func() {
		for _, s := range p.streams {
			s.sending.Unlock()
		}
	})
}

// Waiting tells where a stream stands; false: there is none.
func (p *Pin) Waiting(uid string) (Waiting, bool) {
	s := p.streams[uid]
	if s == nil {
		return Waiting{}, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Waiting{Generation: s.generation, Confirmed: s.confirmed, Chain: s.chain, Shift: s.shift}, true
}

// Copy gives the results that wait up to a number on the wire, visible or not, in order. Payloads are valid as long as they are
// referenced. A result that is missing is ErrNotWhole.
func (p *Pin) Copy(ctx context.Context, uid string, upTo uint64, each func(r *pipeline.Result) error) error {
	return p.CopyFrom(ctx, uid, 0, upTo, each)
}

// CopyFrom is Copy from a number on; a gap may begin before it.
func (p *Pin) CopyFrom(ctx context.Context, uid string, first, upTo uint64, each func(r *pipeline.Result) error) error {
	w, ok := p.Waiting(uid)
	if !ok {
		return fmt.Errorf("copy results of %s: %w: no such stream", uid, ErrNotWhole)
	}
	s, err := p.streams[uid], error(nil)
	var from readback
	defer from.close()
	for next := max(w.Confirmed+1, first); err == nil && next <= upTo; {
		if err = ctx.Err(); err == nil {
			next, err = s.copySome(ctx, &from, next, upTo, each)
		}
	}
	if err != nil {
		return fmt.Errorf("copy results of %s: %w", uid, err)
	}
	return nil
}

// copySome gives results from next on and tells which one follows. mu is not held during each, and payloads are immutable.
func (s *Stream) copySome(ctx context.Context, from *readback, next, seq uint64, each func(r *pipeline.Result) error) (uint64, error) {
	list, at, err := s.pick(from, next, seq)
	if err != nil {
		return 0, err
	}
	if list == nil {
		return next, from.load(ctx, s.log, at)
	}
	for i := range list {
		if err := each(&list[i]); err != nil {
			return 0, err
		}
	}
	return list[len(list)-1].Last + 1, nil
}

// pick gives results or one gap from next on; nil: they lie in the log at a position.
func (s *Stream) pick(from *readback, next, seq uint64) (list []pipeline.Result, at uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.usable(); err != nil {
		return nil, 0, err
	}
	if g := s.gapAt(next); g != nil {
		r := pipeline.Result{Seq: next, Last: min(g.last, seq), Pos: g.pos, Kind: pipeline.ResultGap, Time: pipeline.NoTime, Payload: []byte(g.reason)}
		if r.Last == g.last {
			r.Chain = g.chain
		}
		return []pipeline.Result{r}, 0, nil
	}
	i := s.chunkAt(next)
	if i < 0 {
		return nil, 0, fmt.Errorf("%w: stream %s, result %d", ErrNotWhole, s.uid, next)
	}
	c := &s.chunks[i]
	results := c.results
	if results == nil {
		if results = from.results(c); results == nil {
			return nil, c.at, nil
		}
	}
	end := min(seq, c.last, s.gapAfter(next)-1, next+copyResults-1)
	return append(list, results[next-c.first:end-c.first+1]...), 0, nil
}
