package agent

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// TestStillness: what is busy and does not move is stuck after the time, and not before; what rested in between begins anew.
func TestStillness(t *testing.T) {
	start := time.Now()
	s := &stillness{}
	for _, c := range []struct {
		after time.Duration
		at    uint64
		busy  bool
		want  bool
	}{
		{0, 5, true, false}, {time.Minute, 5, true, false}, {2 * time.Minute, 5, true, true}, // stuck
		{3 * time.Minute, 6, true, false}, {4 * time.Minute, 6, true, false}, // moved
		{5 * time.Minute, 6, false, false}, {6 * time.Minute, 6, true, false}, {7 * time.Minute, 6, true, true}, // rested
		{8 * time.Minute, 0, true, false},
	} {
		if got := s.observe(c.at, c.busy, start.Add(c.after), 90*time.Second); got != c.want {
			t.Errorf("after %s at %d, busy %v: stuck %v", c.after, c.at, c.busy, got)
		}
	}
}

// TestStartThatHangsIsFound: of a pipeline that starts again as well, long after READY; and an end. A start that gets on, one that waits to be tried, and one that failed are none.
func TestStartThatHangsIsFound(t *testing.T) {
	for _, unwatched := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			hold, ends, closes := make(chan struct{}, 1), make(chan error), make(chan struct{})
			s := newSupervisor("p", fixed(1), slog.New(slog.DiscardHandler), func(ctx context.Context, ready func(*attempt)) error {
				<-hold
				ready(&attempt{})
				defer func() { ready(nil); <-closes }()
				select {
				case err := <-ends:
					return err
				case <-ctx.Done():
					return ctx.Err()
				}
			})
			s.unwatched = unwatched
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- s.run(ctx) }()
			now, steps := time.Now(), uint64(0)
			hangs := func(what string, want bool) {
				t.Helper()
				synctest.Wait()
				_ = s.hanging(steps, now)
				now = now.Add(startsFor() + time.Second)
				if err := s.hanging(steps, now); (err != nil) != (want && !unwatched) || err != nil && !errors.Is(err, errStuck) {
					t.Errorf("%s, not watched: %t: %v", what, unwatched, err)
				}
			}
			hold <- struct{}{}
			hangs("it runs", false)
			ends <- errPlanted
			steps++
			hangs("its end", true)
			closes <- struct{}{}
			hangs("it waits to be tried again", false)
			time.Sleep(time.Minute)
			hangs("its second start", true)
			for range 5 { // it gets on, slowly
				steps++
				now = now.Add(startsFor())
				if err := s.hanging(steps, now); err != nil {
					t.Error(err)
				}
			}
			hangs("its second start stops getting on", true)
			hold <- struct{}{}
			hangs("it runs again", false)
			ends <- errPlanted
			closes <- struct{}{}
			hangs("it failed for good", false)
			stop()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}
