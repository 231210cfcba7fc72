package deadletter

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// evict recycles the oldest segments while more than MaxBytes are kept.
func (s *Store) evict(ctx context.Context) error {
	if s.log.Stats().LiveBytes <= s.config.MaxBytes {
		return nil
	}
	for s.log.Stats().LiveBytes > s.config.MaxBytes {
		first := s.log.First()
		before, last := first, s.log.Last()
		for step := max(1, (last-first)/8); s.log.First() == first && before < last; {
			before = min(before+step, last)
			if err := s.trim(ctx, before); err != nil {
				return err
			}
		}
		if s.log.First() == first {
			return nil // one segment: nothing can go
		}
	}
	s.logger.Warn("oldest dead letters made room", "held", s.kept-min(s.kept, s.goneNo+s.removed.count()), "kept_total", s.kept)
	return nil
}

// trim recycles the segments that lie wholly below a position. What is known of the entries in them is written first: a repeat of one must
// not come back as new, and the counts go on. A requeue whose end is not written stays.
func (s *Store) trim(ctx context.Context, before uint64) error {
	if s.started != nil {
		before = min(before, s.startAt)
	}
	m := marks{known: s.known, kept: s.kept, expired: s.expired, requeued: s.put, gone: s.gone, goneNumber: s.goneNo, removed: s.removed.list}
	if _, err := s.log.AppendReserved(appendMarks(nil, &m)); err != nil {
		return fmt.Errorf("write dead letter marks: %w", err)
	}
	if err := s.log.Sync(ctx); err != nil {
		return fmt.Errorf("write dead letter marks: %w", err)
	}
	if err := s.log.Trim(before); err != nil {
		return fmt.Errorf("evict dead letters: %w", err)
	}
	return s.passTrimmed()
}

// passTrimmed finds out which entries the log's beginning has left out. Entries of version 1 have no numbers: they are counted back from
// the first that has one, or from the newest.
func (s *Store) passTrimmed() error {
	first := s.log.First()
	without, number := uint64(0), uint64(0)
	err := s.scan(context.Background(), first, func(_ uint64, r record, _ error) bool {
		if r.entry == nil {
			return true
		}
		if number = r.entry.Number; number == 0 {
			without++
		}
		return number == 0
	})
	if err != nil {
		return fmt.Errorf("find the oldest dead letter: %w", err)
	}
	if number == 0 {
		number = s.kept + 1
	}
	s.pass(first-1, number-1-min(number-1, without))
	return nil
}

// pass notes that entries up to an ID, of which number is the last one's, are no more.
func (s *Store) pass(id, number uint64) {
	s.gone, s.goneNo = max(s.gone, id), max(s.goneNo, number)
	s.removed.cut(s.gone)
}

// remove takes a removal over.
func (s *Store) remove(r *removal) {
	switch r.cause {
	case causeExpired:
		s.expired += r.count
		s.pass(r.ids[0].last, r.number)
	case causeRequeued:
		for _, ids := range r.ids {
			s.removed.add(ids.first, ids.last)
		}
		s.removed.cut(s.gone)
		s.put += r.count
		s.started = nil
	}
}

// Expire removes entries older than MaxAge, durably, and tells how many. It costs nothing while the oldest is young enough.
func (s *Store) Expire(ctx context.Context) (n uint64, err error) {
	if s.log.Stats().Waits != "" {
		return 0, nil // the disk takes nothing just now; who expires looks after other things too
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.stamp()
	if s.config.MaxAge == 0 || s.headAt > s.gone && !s.old(now, s.head) {
		return 0, nil
	}
	r := removal{cause: causeExpired, ids: []span{{1, s.gone}}, number: s.goneNo}
	s.headAt = 0
	err = s.blocks(ctx, s.gone+1, func(b *log.Block) bool {
		entries, last := s.entriesOf(b, r.number)
		switch {
		case last == r.number:
		case !s.old(now, b.Stamp):
			s.head, s.headAt = b.Stamp, b.Last
			return false
		default:
			r.count, r.number = r.count+entries, last
		}
		r.ids[0].last = b.Last
		return true
	})
	if err != nil || r.count == 0 {
		return 0, err
	}
	if _, err := s.log.AppendReserved(appendRemoved(nil, &r)); err != nil {
		return 0, fmt.Errorf("expire dead letters: %w", err)
	}
	if err := s.log.Sync(ctx); err != nil {
		return 0, fmt.Errorf("expire dead letters: %w", err)
	}
	s.remove(&r)
	s.logger.Info("dead letters were older than max_age", "expired", r.count, "expired_total", s.expired)
	if s.log.Stats().LiveBytes > 2*s.config.Log.SegmentBytes && s.gone-s.log.First() >= (s.log.Last()-s.log.First())/4 {
		return r.count, s.trim(ctx, s.gone+1)
	}
	return r.count, nil
}

// entriesOf counts a frame's entries that are still here, and gives the number of its last entry; before is that of the entry before it.
func (s *Store) entriesOf(b *log.Block, before uint64) (n, last uint64) {
	last = before
	if b.Lost {
		return 0, last
	}
	for pos, data := range b.Records() {
		r, err := decode(data)
		if err != nil || r.entry == nil || pos <= s.gone {
			continue
		}
		last = max(last+1, r.entry.Number)
		if !s.removed.has(pos, pos) {
			n++
		}
	}
	return n, last
}

// old is by the wall clock where both stamps are trusted: the agent's life stands still while it is off.
func (s *Store) old(now, then pipeline.Stamp) bool {
	age := now.Elapsed - then.Elapsed
	if now.Trusted && then.Trusted {
		age = (now.Wall - then.Wall) * 1e6
	}
	return age > int64(s.config.MaxAge)
}
