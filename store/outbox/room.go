package outbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/store/log"
)

// makeRoom waits until n more bytes fit, or drops the oldest results that were not sent. When nothing is visible, waiting
// could never end (the barrier that makes results visible comes behind this Emit), so it lets the result in.
func (s *Stream) makeRoom(ctx context.Context, n int64) error {
	s.expire() // a sender that waits for its upstream does not come to it
	if s.opt.OnFull == DropOldest {
		s.dropOldest(s.opt.MaxBytes - n)
		return nil
	}
	for s.bytes+n > s.opt.MaxBytes && s.visible() > s.confirmed {
		if err := s.waitRoom(ctx); err != nil {
			return err
		}
		s.expire()
	}
	return nil
}

// waitRoom gives up the lock until something was confirmed.
func (s *Stream) waitRoom(ctx context.Context) error {
	s.stats.Blocked = true
	s.mu.Unlock()
	var err error
	select {
	case <-s.room:
	case <-ctx.Done():
		err = ctx.Err()
	}
	s.mu.Lock()
	s.stats.Blocked = false
	if err == nil && s.closed {
		err = ErrClosed
	}
	return err
}

// dropOldest turns whole visible chunks that the sender does not have into gaps, until no more than keep bytes wait.
func (s *Stream) dropOldest(keep int64) {
	visible, pinned := s.visible(), s.pinned()
	for i := 0; i < len(s.chunks) && s.bytes > keep; {
		c := &s.chunks[i]
		if c.first <= pinned || c.last > visible || s.gapAt(c.last) != nil {
			i++
			continue
		}
		s.replaceChunk(i, reasonFull)
	}
}

// pinned is the last sequence that the sender has, or that is part of a batch whose bounds are fixed: it may be upstream already, as data.
func (s *Stream) pinned() uint64 {
	if s.o.faults.dropInFlight {
		return s.confirmed
	}
	return max(s.cursor, s.boundLast)
}

// replaceChunk puts a gap in the place of chunk i. The gap becomes durable before it is sent (Next) or at the next Seal.
func (s *Stream) replaceChunk(i int, reason string) {
	c := &s.chunks[i]
	if i == len(s.chunks)-1 {
		s.open = false
	}
	s.tellDrop(c, reason)
	g := gap{first: c.first, last: c.last, chain: c.chainLast, reason: reason, inc: s.o.Incarnation()}
	s.unload(c)
	p := s.gapAt(c.first - 1)
	if p != nil && p.at == 0 && p.reason == reason && p.last > s.cursor && s.gapAfter(c.first) > c.last {
		p.last, p.chain = g.last, g.chain // one gap grows while nothing of it was written
		s.dropCovered()
		return
	}
	s.addGap(g)
}

// tellEvery spaces the log lines about results that are given up, in agent life.
const tellEvery = time.Minute

// tellDrop logs that results are given up: the first time, then once a minute.
func (s *Stream) tellDrop(c *chunk, reason string) {
	s.untold += c.count()
	now := s.o.stamp().Elapsed
	if s.toldAt != 0 && now-s.toldAt < int64(tellEvery) {
		return
	}
	s.o.logger.Warn("results are given up, upstream gets a gap in their place", "sink", s.uid, "reason", reason, "last", c.last, "results", s.untold)
	s.toldAt, s.untold = max(now, 1), 0
}

// waitLog holds the pipeline while the log is full and four windows of memory are used. What was confirmed is trimmed first; a
// stream that may drop gives up a quarter of what waits. When the log holds nothing but results that no checkpoint released, the
// barrier that would release them waits behind this call: then it is ErrUnreleased instead of waiting for ever.
func (s *Stream) waitLog(ctx context.Context) error {
	since := time.Now()
	for s.memory > 4*s.o.config.WindowBytes {
		if s.opt.OnFull == DropOldest {
			s.dropOldest(s.bytes / 4 * 3)
		}
		s.mu.Unlock()
		err := s.reclaim(ctx, 1)
		stuck := err == nil && s.stuck()
		s.mu.Lock()
		if err != nil {
			return err
		}
		if _, err := s.write(^uint64(0)); !errors.Is(err, log.ErrFull) {
			return err
		}
		if !stuck {
			since = time.Now()
		} else if time.Since(since) >= s.o.stuckAfter {
			return fmt.Errorf("emit to %s: %w", s.uid, ErrUnreleased)
		}
		look := time.AfterFunc(s.o.stuckAfter, func() { signal(s.room) })
		err = s.waitRoom(ctx)
		look.Stop()
		if err != nil {
			return err
		}
	}
	return nil
}
