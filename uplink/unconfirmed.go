package uplink

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// errUnconfirmed says that upstream took a batch and does not come to hold it.
var errUnconfirmed = errors.New("upstream took results and does not confirm them")

// awaitConfirm asks an endpoint that answers before its data is durable, until it covers the batch. When what it holds did not grow for Timeout, by
// its word or for want of one, the batch counts as lost there: the stream is opened again and goes on from what upstream holds then. That is
// no duplicate when the batch was only slow, for receivers deduplicate by sequence (RULES 16).
func (s *Sender) awaitConfirm(ctx context.Context, b *Batch) (decision, error) {
	held, grown := b.Previous, time.Now()
	for n := 0; ; n++ {
		if err := s.allowed(ctx); err != nil {
			return decision{}, err
		}
		askCtx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		seq, err := s.o.Endpoint.Confirm(askCtx)
		cancel()
		switch {
		case ctx.Err() != nil:
			return decision{}, ctx.Err()
		case errors.Is(err, ErrFenced):
			return decision{action: actionStop, err: err}, nil
		case errors.Is(err, ErrHole) || err == nil && seq < b.Previous:
			return decision{action: actionReopen, err: errors.Join(ErrHole, err)}, nil
		case err != nil:
			s.metrics.fail(err)
		case seq >= b.Last:
			return decision{action: actionDone, upTo: b.Last}, nil
		case seq > held:
			held, grown = seq, time.Now()
		}
		if wait := time.Since(grown); wait >= s.o.Timeout && !s.patient {
			err := fmt.Errorf("%w: of %d to %d it holds those up to %d for %d s; they are sent again from there", errUnconfirmed, b.First, b.Last, held, int(wait.Seconds()))
			return decision{action: actionReopen, err: err}, nil
		}
		if err := s.o.Backoff.pause(ctx, n, 0); err != nil {
			return decision{}, err
		}
	}
}
