package outbox

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// HoldBack keeps every result from the senders, in every mode, until LetGo: those of a plan on probation are void when it fails, and what has left
// cannot be. It comes before Cut. A full stream does not block meanwhile, since nothing drains: only the bound of its log holds. Streams named live go on as ever.
func (o *Outbox) HoldBack(live ...string) {
	if plantedLive {
		return
	}
	o.mu.Lock()
	o.live = slices.Clone(live)
	o.mu.Unlock()
	o.held.Store(true)
}

// HeldBytes is what waits in streams that are held back; 0: nothing is.
func (o *Outbox) HeldBytes() (n int64) {
	if !o.held.Load() {
		return 0
	}
	for _, s := range o.sorted() {
		if !s.live() {
			n += s.Stats().WaitingBytes
		}
	}
	return n
}

// HeldBack tells that nothing of the stream may leave now: HoldBack without LetGo.
func (s *Stream) HeldBack() bool { return s.o.held.Load() && !s.live() }

// live tells that HoldBack leaves the stream alone. uid and o.live do not change while results flow.
func (s *Stream) live() bool { return slices.Contains(s.o.live, s.uid) }

// LetGo ends HoldBack. Repeating it is harmless.
func (o *Outbox) LetGo() {
	o.held.Store(false)
	for _, s := range o.sorted() {
		signal(s.wake)
	}
}

// Revoke makes what each stream holds past the given ends void (RULES 26), in every mode: results of a plan that is given up, of which none has left.
// Streams without an end are emptied. It is durable on return, and comes before Cut; a repeat is harmless.
func (o *Outbox) Revoke(ctx context.Context, ends []pipeline.SinkMark) error {
	o.sealing.Lock()
	defer o.sealing.Unlock()
	last := map[string]uint64{}
	for _, e := range ends {
		last[e.UID] = e.Seq
	}
	for _, s := range o.sorted() {
		err := s.revoke(last[s.uid])
		if err == nil {
			err = s.log.Sync(ctx)
		}
		if err != nil {
			return fmt.Errorf("revoke results of %s past %d: %w", s.uid, last[s.uid], err)
		}
	}
	return nil
}

func (s *Stream) revoke(end uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last() <= end {
		return nil
	}
	rec := cutRecord{head: head{uid: s.uid, generation: s.generation, inc: s.o.Incarnation()}, seq: end}
	if _, err := s.log.AppendReserved(appendCut(nil, &rec)); err != nil {
		return err
	}
	s.cut(s.generation, end, 0)
	s.loaded.invalid = true
	return nil
}
