package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// An entry goes back into the journal in three durable steps: BeginRequeue names it here, the caller appends it to the journal under its ID, EndRequeue
// removes it here. A crash between them leaves a Requeueing: the journal, behind the position noted, tells which of them are in it, and
// EndRequeue with those is what was missing. So each is in the journal at most once, and here until it is.

// ErrRequeueing says that an earlier requeue has not been ended.
var ErrRequeueing = errors.New("an earlier requeue of dead letters has not been ended")

// BeginRequeue notes that entries are about to be appended to the journal, behind position after. It is durable on return.
func (s *Store) BeginRequeue(ctx context.Context, after pipeline.Position, ids []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started != nil {
		return ErrRequeueing
	}
	for _, id := range ids {
		if id <= s.gone || s.removed.has(id, id) {
			return fmt.Errorf("requeue dead letter %d: %w", id, ErrGone)
		}
	}
	q := &requeue{after: after, ids: spansOf(ids)}
	at, err := s.log.AppendReserved(appendRequeue(nil, q))
	if err == nil {
		s.started, s.startAt = q, at
		err = s.log.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("note a requeue of dead letters: %w", err)
	}
	return nil
}

// Requeueing tells of a requeue that was begun and not ended; its entries may be in the journal behind after, or not.
func (s *Store) Requeueing() (after pipeline.Position, ids []uint64, begun bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started == nil {
		return 0, nil, false
	}
	for _, sp := range s.started.ids {
		for id := sp.first; id <= sp.last; id++ {
			ids = append(ids, id)
		}
	}
	return s.started.after, ids, true
}

// EndRequeue removes the entries that are in the journal, durably; the others of the requeue stay. Repeating it is harmless.
func (s *Store) EndRequeue(ctx context.Context, done []uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.started == nil {
		return nil
	}
	r := removal{cause: causeRequeued}
	var here []uint64
	for _, id := range done {
		// One that made room meanwhile is gone anyway; it counts as evicted.
		if id > s.gone && !s.removed.has(id, id) {
			here = append(here, id)
		}
	}
	r.ids, r.count = spansOf(here), uint64(len(here))
	if s.faults.forgetRemoval {
		r.ids, r.count = nil, 0
	}
	_, err := s.log.AppendReserved(appendRemoved(nil, &r))
	if err == nil {
		err = s.log.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("remove requeued dead letters: %w", err)
	}
	s.remove(&r)
	return nil
}

// spansOf makes spans of IDs; it sorts them.
func spansOf(ids []uint64) (list []span) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		if n := len(list); n > 0 && list[n-1].last+1 == id {
			list[n-1].last = id
		} else {
			list = append(list, span{id, id})
		}
	}
	return list
}
