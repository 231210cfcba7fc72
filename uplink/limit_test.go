package uplink

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// shareOfALink lets two streams catch up without end and one of high priority have a fresh result every ten seconds, for ten minutes. It
// checks the rule that Limiter states.
func shareOfALink(t *testing.T, f limiterFaults) (err error) {
	synctest.Test(t, func(t *testing.T) {
		const second = 4000 // bytes; a burst is 1000
		l := NewLimiter(second)
		l.faults = f
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		var sent [3]int
		for i, p := range [...]Priority{PriorityLow, PriorityNormal, PriorityNormal} {
			wg.Go(func() {
				for l.Wait(ctx, 20_000, p) == nil { // five seconds of the link each
					sent[i] += 20_000
				}
			})
		}
		var worst time.Duration
		wg.Go(func() {
			for ctx.Err() == nil {
				time.Sleep(10 * time.Second)
				t0 := time.Now()
				if l.Wait(ctx, 1000, PriorityHigh) == nil {
					worst = max(worst, time.Since(t0))
				}
			}
		})
		wg.Wait()
		all := sent[0] + sent[1] + sent[2]
		t.Logf("low %d, normal %d and %d of %d bytes; a fresh one of high priority waited %s", sent[0], sent[1], sent[2], 600*second, worst)
		switch {
		case worst > 750*time.Millisecond:
			err = fmt.Errorf("a fresh result of high priority waited %s", worst)
		case sent[0] < all/10:
			err = fmt.Errorf("the low stream had %d of %d bytes", sent[0], all)
		case sent[1]+sent[2] < all*8/10:
			err = fmt.Errorf("the normal streams had %d of %d bytes", sent[1]+sent[2], all)
		case sent[1] < sent[2]*9/10 || sent[2] < sent[1]*9/10:
			err = fmt.Errorf("two streams of one priority had %d and %d bytes", sent[1], sent[2])
		case all < 570*second:
			err = fmt.Errorf("of %d bytes of the link %d were used", 600*second, all)
		}
	})
	return err
}

func TestLinkIsSharedByTheRule(t *testing.T) {
	if err := shareOfALink(t, limiterFaults{}); err != nil {
		t.Error(err)
	}
	for _, f := range []limiterFaults{{highStarves: true}, {lowStarves: true}} {
		err := shareOfALink(t, f)
		if err == nil {
			t.Errorf("the planted fault %+v was not found", f)
		}
		t.Logf("%+v: %v", f, err)
	}
}
