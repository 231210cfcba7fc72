package uplinktest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/weirstream/weir/uplink"
)

// twins: two senders of one stream push the same results. The lower incarnation is fenced, no record comes twice.
func (s *suite) twins(p plant) error {
	s.needsProgress()
	const n = 300
	_, connect := s.way()
	old, fresh := NewQueue(1, 0), NewQueue(1, 0)
	old.Add(rows(1, n)...)
	fresh.Add(rows(1, n)...)
	d1, err := s.start(old, p(connect(s, "a")), one)
	if err != nil {
		return err
	}
	defer d1.stop() //nolint:errcheck // the fence is looked at
	if err := d1.confirmed(50); err != nil {
		return err
	}
	d2, err := s.start(fresh, connect(s, "b"), uplink.Incarnation{Major: 2})
	if err != nil {
		return err
	}
	defer d2.stop() //nolint:errcheck // it is cancelled
	if err := d2.until("send all", func() bool { return fresh.Confirmed() >= n || d2.Metrics().Fenced.Load() }); err != nil {
		return err
	}
	old.Add("a stray") // it may have been as fast
	if err := d1.until("fence the old incarnation", func() bool { return d1.Metrics().Fenced.Load() || old.Confirmed() > n }); err != nil {
		return err
	}
	if err := d1.stop(); !errors.Is(err, uplink.ErrFenced) {
		return fmt.Errorf("the old incarnation ended with %w, want ErrFenced", err)
	}
	_ = d2.stop()
	return s.holds(n)
}

// late: copies of batches, with any cuts, arrive by several connections at once in any order; and once more when a newer incarnation has
// opened.
func (s *suite) late(p plant) error {
	s.needsProgress()
	const writers, copies = 3, 40
	seed := rand.Uint64()
	_, connect := s.way()
	var wg sync.WaitGroup
	failed := make([]error, writers)
	ends := make([]uplink.Endpoint, writers)
	for i := range ends {
		ends[i] = p(connect(s, "a"))
		defer ends[i].Close() //nolint:errcheck // nothing waits for it
		if _, err := ends[i].Open(s.Context(), Stream(), one, 1); err != nil {
			return err
		}
	}
	for i, e := range ends {
		wg.Go(func() { failed[i] = s.copies(e, rand.New(rand.NewPCG(seed, uint64(i))), copies) })
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	// Equal writers may void each other's work for a while. One alone comes through.
	if err := s.copies(ends[0], rand.New(rand.NewPCG(seed, writers)), copies); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	fresh := connect(s, "b")
	defer fresh.Close()
	two := uplink.Incarnation{Major: 2}
	prog, err := fresh.Open(s.Context(), Stream(), two, 1)
	if err != nil {
		return err
	}
	if prog.Seq < copies/4 {
		return fmt.Errorf("seed %d: only %d results came through", seed, prog.Seq)
	}
	for _, e := range ends {
		b := MakeBatch(Stream(), one, 1, prog.Seq+1, prog.Seq+3)
		if ans, err := e.Send(s.Context(), b); err == nil {
			return fmt.Errorf("a copy of the old incarnation was taken behind the fence: %+v", ans)
		}
	}
	if err := s.holds(prog.Seq); err != nil {
		return fmt.Errorf("seed %d: %w", seed, err)
	}
	return nil
}

// copies sends batches around the end of the run: before it, across it, and now and then beyond.
func (s *suite) copies(e uplink.Endpoint, rnd *rand.Rand, n int) error {
	end := uint64(0)
	for range n {
		first := max(1, int(end)+3-rnd.IntN(9))
		b := MakeBatch(Stream(), one, 1, uint64(first), uint64(first+rnd.IntN(8)))
		ans, err := e.Send(s.Context(), b)
		switch {
		case errors.Is(err, uplink.ErrHole): // another one was faster, or this one ran ahead
			p, err := e.Open(s.Context(), Stream(), one, 1)
			if errors.Is(err, uplink.ErrFenced) {
				return err
			}
			if err == nil {
				end = p.Seq
			}
		case errors.Is(err, uplink.ErrFenced):
			return err
		case err == nil && ans.Durable < b.Last:
			return fmt.Errorf("send %d..%d: %+v", b.First, b.Last, ans)
		case err == nil:
			end = max(end, ans.Durable)
		}
	}
	return nil
}
