package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/log"
)

// Feed gives a store's entries, under their numbers, to a sender of its own: it is an uplink.Queue for the stream of dead letters that goes
// upstream. An entry that made room or grew too old before it was sent is a gap; one that was put into the journal again is sent. The store
// bounds the feed, never the other way round: an upstream that is away costs the oldest entries, counted, and no pipeline waits.
//
// Where upstream stands is told by Open; the feed keeps nothing of its own on flash.
type Feed struct {
	store  *Store
	encode func(*Entry) ([]byte, error)

	mu                sync.Mutex
	cursor, confirmed uint64
	at                uint64 // ID of the entry at cursor; 0: not known
	gaps, refused     ranges // past confirmed
	stats             FeedStats
}

// FeedStats: Kept = Before + Delivered + Dropped + Rejected + Pending.
type FeedStats struct {
	Kept                         uint64
	Before                       uint64 // upstream held them when the feed was opened, or an answer was lost
	Delivered, Dropped, Rejected uint64
	Pending                      uint64
}

// NewFeed makes the feed of a store; there is at most one. encode makes the payload that is sent.
func NewFeed(s *Store, encode func(*Entry) ([]byte, error)) *Feed {
	return &Feed{store: s, encode: encode}
}

// Next implements uplink.Queue.
func (f *Feed) Next(ctx context.Context, maxResults, maxBytes int) ([]pipeline.Result, error) {
	for {
		results, err := f.take(ctx, maxResults, maxBytes)
		if err != nil && !errors.Is(err, log.ErrTrimmed) || len(results) > 0 {
			return results, err
		}
		if err != nil {
			continue // entries made room while they were read
		}
		select {
		case <-f.store.grown:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// dropped is the reason of a gap.
var dropped = []byte("dropped: dead letters made room for newer ones or grew too old before they were sent")

func (f *Feed) take(ctx context.Context, maxResults, maxBytes int) (out []pipeline.Result, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.store.mu.Lock()
	goneNo, kept := f.store.goneNo, f.store.kept
	f.store.mu.Unlock()
	if f.cursor >= kept {
		return nil, nil
	}
	add := func(r pipeline.Result) {
		out = append(out, r)
		f.cursor = r.Last
	}
	gap := func(upTo uint64) {
		if upTo > f.cursor {
			f.gaps.add(f.cursor+1, upTo)
			add(pipeline.Result{Seq: f.cursor + 1, Last: upTo, Kind: pipeline.ResultGap, Time: pipeline.NoTime, Payload: dropped})
		}
	}
	gap(min(goneNo, kept))
	bytes := 0
	var failed error
	err = f.store.scan(ctx, f.at+1, func(at uint64, r record, err error) bool {
		if err != nil || r.entry == nil || r.entry.Number <= f.cursor {
			return true
		}
		if r.entry.Number > kept || len(out) >= maxResults {
			return false
		}
		payload, err := f.encode(r.entry)
		if err != nil {
			failed = err
			return false
		}
		if len(out) > 0 && bytes+len(payload) > maxBytes {
			return false
		}
		gap(r.entry.Number - 1) // damaged ones
		bytes += len(payload)
		f.at = at
		add(pipeline.Result{Seq: r.entry.Number, Last: r.entry.Number, Pos: r.entry.Pos, Kind: pipeline.ResultData, Time: r.entry.Time, Payload: payload})
		return true
	})
	if err == nil {
		err = failed
	}
	if len(out) == 0 && err == nil && f.cursor < kept {
		gap(kept) // the newest are damaged
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// Seek implements uplink.Queue. What upstream holds no more is sent again, as far as it is here.
func (f *Feed) Seek(_, seq, _ uint64) (known, lostFirst, lostLast uint64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.store.reach(seq); err != nil {
		return 0, 0, 0, err
	}
	if seq > f.confirmed {
		known = seq - f.confirmed
	}
	if seq < f.confirmed { // it lost some: they go once more
		f.stats = FeedStats{}
	}
	f.stats.Before += known
	f.cursor, f.confirmed, f.at = seq, seq, 0
	f.gaps.cut(seq)
	f.refused.cut(seq)
	return known, 0, 0, nil
}

// reach has the numbers go on behind what upstream holds: those of a store that was lost were given out before.
func (s *Store) reach(number uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number <= s.kept {
		return nil
	}
	s.logger.Error("upstream holds more dead letters than were ever kept here; those that are here stay here", "upstream", number, "kept", s.kept)
	s.goneNo += number - s.kept
	s.kept = number
	return s.trim(context.Background(), 0)
}

// Resume implements uplink.Queue.
func (f *Feed) Resume() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cursor, f.at = f.confirmed, 0
}

// Bind implements uplink.Queue. The config refuses endpoints that would need it.
func (f *Feed) Bind(_ context.Context, first, last uint64) error {
	return fmt.Errorf("BUG: dead letters %d to %d cannot be bound: the endpoint keeps no progress", first, last)
}

// Confirm implements uplink.Queue.
func (f *Feed) Confirm(seq, _ uint64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if seq <= f.confirmed {
		return nil
	}
	dropped, rejected := f.gaps.within(f.confirmed+1, seq), f.refused.within(f.confirmed+1, seq)
	f.stats.Dropped += dropped
	f.stats.Rejected += rejected
	f.stats.Delivered += seq - f.confirmed - dropped - rejected
	f.confirmed = seq
	f.gaps.cut(seq)
	f.refused.cut(seq)
	return nil
}

// Skip implements uplink.Queue. The entry stays in the store; should the gap not have been told before a crash, it is refused once more.
func (f *Feed) Skip(_ context.Context, first, last uint64, _ string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused.add(first, last)
	return nil
}

// Stats may be read at any time.
func (f *Feed) Stats() FeedStats {
	f.mu.Lock()
	defer f.mu.Unlock()
	st := f.stats
	st.Kept = f.store.Stats().Kept
	if st.Before+st.Delivered+st.Dropped+st.Rejected == 0 {
		st.Before = f.confirmed
	}
	st.Pending = st.Kept - min(st.Kept, f.confirmed)
	return st
}
