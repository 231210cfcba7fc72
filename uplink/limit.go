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

// shareEvery: of so many bursts that a stream sends while lower ones wait, one goes to them.
const shareEvery = 8

// Limiter shares a link's bandwidth between the streams of an agent. Its zero value is not usable; a nil Limiter does not limit.
//
// The rule: while several wait, the next burst (a quarter of a second of the link) is for the highest priority, first come, first served
// within it: a stream that gives way keeps its place before its equals; but one burst in eight is for the one of a lower priority that waits
// longest. So a fresh result of the highest priority waits for at most two bursts of others, whatever is being caught up with; it has at least
// 7/8 of the link while it needs it; and nobody starves.
type Limiter struct {
	rate  *rate.Limiter
	burst int

	mu      sync.Mutex
	busy    bool
	waiting [priorities][]waiter // first come, first served within a priority
	arrived uint64
	passed  int // bursts sent while a lower priority waited, since one of those had its share

	faults limiterFaults
}

// limiterFaults are planted by tests. All false in production.
type limiterFaults struct{ highStarves, lowStarves bool }

type waiter struct {
	turn    chan struct{}
	arrived uint64
}

// NewLimiter allows bytesPerSecond on average, in bursts of a quarter of a second.
func NewLimiter(bytesPerSecond int) *Limiter {
	burst := max(bytesPerSecond/4, 1)
	return &Limiter{rate: rate.NewLimiter(rate.Limit(bytesPerSecond), burst), burst: burst}
}

// Wait returns when n bytes may be sent. Between bursts another stream may be served, by the rule.
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
		yield := l.sent(p)
		if n -= take; n == 0 {
			l.done()
			return nil
		}
		if yield {
			if err := l.giveWay(ctx, p); err != nil {
				return err
			}
		}
	}
}

// sent counts a burst of priority p and tells whether another stream is to be served before the next one.
func (l *Limiter) sent(p Priority) (yield bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	lower := false
	for q := range p {
		lower = lower || len(l.waiting[q]) > 0
	}
	if lower {
		l.passed++
	}
	for q := p + 1; q < priorities; q++ {
		if len(l.waiting[q]) > 0 {
			return !l.faults.highStarves
		}
	}
	return lower && l.share()
}

// share tells whether the next burst is for a lower priority.
func (l *Limiter) share() bool { return l.passed >= shareEvery && !l.faults.lowStarves }

// turn waits until no other stream holds the limiter and none goes first.
func (l *Limiter) turn(ctx context.Context, p Priority) error {
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	mine := l.waiter()
	l.waiting[p] = append(l.waiting[p], mine)
	l.mu.Unlock()
	return l.await(ctx, p, mine)
}

// giveWay hands the limiter to the stream that goes first and waits until it is this one's turn again, before its equals. Behind them, whoever happens to
// send when another priority comes would lose its turn to them, and that may always be the same one.
func (l *Limiter) giveWay(ctx context.Context, p Priority) error {
	l.mu.Lock()
	mine := l.waiter()
	l.waiting[p] = append([]waiter{mine}, l.waiting[p]...)
	l.handOver()
	l.mu.Unlock()
	return l.await(ctx, p, mine)
}

// waiter comes behind all others. mu is held.
func (l *Limiter) waiter() waiter {
	l.arrived++
	return waiter{turn: make(chan struct{}), arrived: l.arrived}
}

func (l *Limiter) await(ctx context.Context, p Priority, mine waiter) error {
	select {
	case <-mine.turn:
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
	l.handOver()
}

// handOver gives the turn to the stream that goes first. mu is held.
func (l *Limiter) handOver() {
	p := l.next()
	if p < 0 {
		l.busy = false
		return
	}
	close(l.waiting[p][0].turn)
	l.waiting[p] = l.waiting[p][1:]
}

// next is the priority that is served, -1 when nobody waits. mu is held.
func (l *Limiter) next() int {
	highest, oldest := -1, -1
	for p := priorities - 1; p >= 0; p-- {
		switch {
		case len(l.waiting[p]) == 0:
		case highest < 0:
			highest = p
		case oldest < 0 || l.waiting[p][0].arrived < l.waiting[oldest][0].arrived:
			oldest = p
		}
	}
	if !l.share() {
		return highest
	}
	l.passed = 0
	if oldest < 0 { // all that wait are of one priority: it is the one that was passed over
		return highest
	}
	return oldest
}
