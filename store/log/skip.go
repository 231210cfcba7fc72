package log

import (
	"context"
	"fmt"
	"time"
)

// SkipTo leaves out positions: no record ever gets one up to upTo, and those that none has yet read as left out: no loss, neither now nor after a recovery. Durable on return. State that comes
// from another log brings positions with it, which what is appended here must lie behind. Positions that were given out are left alone; a repeat is
// harmless. A full log skips too. ErrFailed, ErrClosed: it takes nothing any more; an end of ctx leaves it to happen or not.
func (l *Log) SkipTo(ctx context.Context, upTo uint64) error {
	l.mu.Lock()
	if upTo < l.next {
		l.mu.Unlock()
		return nil
	}
	if l.err == nil && l.closing {
		l.mu.Unlock()
		return ErrClosed
	}
	l.skip = max(l.skip, upTo)
	for l.durable < upTo {
		if l.err != nil {
			defer l.mu.Unlock()
			return l.err
		}
		moved := l.moved
		l.mu.Unlock()
		l.wake()
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("skip positions: %w", ctx.Err())
		}
		l.mu.Lock()
	}
	l.mu.Unlock()
	return nil
}

// jump is a range of positions that the commit under way leaves out, behind its records; zero: none.
type jump struct{ first, last uint64 }

// takeJump moves the next position behind what SkipTo wants left out. The open block is empty; mu is held.
func (l *Log) takeJump() (j jump) {
	if l.skip >= l.next {
		j = jump{l.next, l.skip}
		l.next = l.skip + 1
	}
	return j
}

// writeJump writes that no record will ever have the positions of j.
func (l *Log) writeJump(j jump, frame header, timer *time.Timer) (*Block, error) {
	h := header{flags: flagLost, first: j.first, last: j.last, syncedThrough: frame.syncedThrough, stamp: frame.stamp, leftOut: !l.bugs.jumpAsLoss}
	if !l.bugs.jumpUnwritten {
		if err := l.writeFrame(&h, nil, timer); err != nil {
			return nil, err
		}
	}
	l.mu.Lock()
	l.lostAt[j.first] = lostRange{stamp: h.stamp, leftOut: h.leftOut}
	l.mu.Unlock()
	return &Block{First: j.first, Last: j.last, Lost: true, LeftOut: h.leftOut, Stamp: h.stamp}, nil
}
