package restart

import (
	"math"
	"testing"
	"time"
)

func TestRestartStrategies(t *testing.T) {
	type step struct {
		at    time.Duration
		wait  time.Duration
		again bool
	}
	for _, c := range []struct {
		name     string
		strategy Strategy
		steps    []step
	}{
		{"none", Strategy{Kind: "none"}, []step{{0, 0, false}}},
		{"fixed-delay", Strategy{Kind: "fixed-delay", Attempts: 2, Delay: time.Second},
			[]step{{0, time.Second, true}, {5 * time.Second, time.Second, true}, {9 * time.Second, time.Second, false}}},
		{"failure-rate", Strategy{Kind: "failure-rate", FailuresMax: 2, Interval: time.Minute, Delay: time.Second},
			[]step{{0, time.Second, true}, {50 * time.Second, time.Second, true}, {100 * time.Second, time.Second, true},
				{105 * time.Second, 0, false}}},
		{"exponential-delay", Strategy{Kind: "exponential-delay", BackoffInitial: time.Second, BackoffMax: 3 * time.Second, BackoffMultiplier: 2, ResetAfter: time.Hour},
			[]step{{0, time.Second, true}, {time.Second, 2 * time.Second, true}, {4 * time.Second, 3 * time.Second, true},
				{8 * time.Second, 3 * time.Second, true}, {3 * time.Hour, time.Second, true}}},
		{"exponential-delay with a limit", Strategy{Kind: "exponential-delay", BackoffInitial: time.Second, BackoffMax: time.Minute, BackoffMultiplier: 2, ResetAfter: time.Hour, AttemptsMax: 1},
			[]step{{0, time.Second, true}, {2 * time.Second, 0, false}}},
	} {
		h := &History{}
		for i, s := range c.steps {
			wait, again := c.strategy.Next(h, s.at, 0.5)
			if again != s.again || again && wait != s.wait {
				t.Errorf("%s, failure %d: wait %s, again %v; want %s, %v", c.name, i, wait, again, s.wait, s.again)
			}
		}
	}
}

func TestJitterStaysWithinItsShare(t *testing.T) {
	s := Strategy{Kind: "exponential-delay", BackoffInitial: time.Second, BackoffMax: time.Minute, BackoffMultiplier: 1.5, Jitter: 0.1}
	for _, r := range []float64{0, 0.5, math.Nextafter(1, 0)} {
		wait, _ := s.Next(&History{}, 0, r)
		if wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
			t.Errorf("random %v: %s", r, wait)
		}
	}
}
