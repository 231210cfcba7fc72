package uplink

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Backoff spaces retries: it doubles from Min to Max; the wait is drawn from its upper half, so that a fleet that lost the
// same upstream does not come back in step.
type Backoff struct{ Min, Max time.Duration }

// Validate names the field that is out of range.
func (b Backoff) Validate() error {
	if b.Min <= 0 || b.Max < b.Min {
		return fmt.Errorf("backoff is %s to %s, allowed is 0 < min <= max", b.Min, b.Max)
	}
	return nil
}

// Delay is the wait before retry n (0 is the first), with draw in [0, 1).
func (b Backoff) Delay(n int, draw float64) time.Duration {
	d := b.Max
	if n < 40 && b.Min<<n > 0 && b.Min<<n < b.Max {
		d = b.Min << n
	}
	return d/2 + time.Duration(draw*float64(d-d/2))
}

// pause waits for retry n, but at least least; it returns ctx.Err() when ctx ends first.
func (b Backoff) pause(ctx context.Context, n int, least time.Duration) error {
	draw := rand.Float64()
	d := b.Delay(n, draw)
	if least > d {
		d = least + time.Duration(draw*float64(least)/10)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
