package uplink

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/time/rate"
)

// Priority orders the streams that share a link.
type Priority uint8

// The priorities. A waiting stream of a higher one goes first.
const (
	PriorityLow Priority = iota
	PriorityNormal
	PriorityHigh
	priorities = 3
)

// ParsePriority knows low, normal and high.
func ParsePriority(s string) (Priority, error) {
	switch s {
	case "low":
		return PriorityLow, nil
	case "", "normal":
		return PriorityNormal, nil
	case "high":
		return PriorityHigh, nil
	}
	return 0, fmt.Errorf("priority is %q, allowed is low, normal, high", s)
}

// Limiter shares a link's bandwidth between the streams of an agent, the highest priority first. Its zero value is not
// usable; a nil Limiter does not limit.
type Limiter struct {
	rate  *rate.Limiter
	burst int

	mu      sync.Mutex
	busy    bool
	waiting [priorities][]chan struct{} // first come, first served within a priority
}

// NewLimiter allows bytesPerSecond on average, in bursts of a quarter of a second.
func NewLimiter(bytesPerSecond int) *Limiter {
	burst := max(bytesPerSecond/4, 1)
	return &Limiter{rate: rate.NewLimiter(rate.Limit(bytesPerSecond), burst), burst: burst}
}

// Wait returns when n bytes may be sent. Between bursts a stream of higher priority overtakes; one of the same priority
// waits until the whole batch may go.
func (l *Limiter) Wait(ctx context.Context, n int, p Priority) error {
	if l == nil || n == 0 {
		return nil
	}
	if err := l.turn(ctx, p); err != nil {
		return err
	}
	for {
		take := min(n, l.burst)
		if err := l.rate.WaitN(ctx, take); err != nil {
			l.done()
			return err
		}
		if n -= take; n == 0 {
			l.done()
			return nil
		}
		if l.higherWaits(p) {
			l.done()
			if err := l.turn(ctx, p); err != nil {
				return err
			}
		}
	}
}

func (l *Limiter) higherWaits(p Priority) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for q := p + 1; q < priorities; q++ {
		if len(l.waiting[q]) > 0 {
			return true
		}
	}
	return false
}

// turn waits until no other stream holds the limiter and no higher one waits.
func (l *Limiter) turn(ctx context.Context, p Priority) error {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	mine := make(chan struct{})
	l.waiting[p] = append(l.waiting[p], mine)
	l.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	for i, c := range l.waiting[p] {
		if c == mine {
			l.waiting[p] = append(l.waiting[p][:i], l.waiting[p][i+1:]...)
			l.mu.Unlock()
			return ctx.Err()
		}
	}
	l.mu.Unlock()
	l.done() // the turn was handed over just now
	return ctx.Err()
}

// done hands the limiter to the next stream.
func (l *Limiter) done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p := priorities - 1; p >= 0; p-- {
		if len(l.waiting[p]) > 0 {
			close(l.waiting[p][0])
			l.waiting[p] = l.waiting[p][1:]
			return
		}
	}
	l.busy = false
}
