package channel

import (
	"testing"
	"time"
)

func TestWaitsAreSpreadByAFifth(t *testing.T) {
	if lo, hi := pollWait(5*time.Minute, false, 0, 0), pollWait(5*time.Minute, false, 0, 0.999999); lo != 4*time.Minute || hi < 359*time.Second || hi > 6*time.Minute {
		t.Errorf("%v to %v, want 4m to 6m", lo, hi)
	}
	if got := pollWait(5*time.Minute, true, 0, 0.5); got != time.Hour {
		t.Errorf("with a doorbell %v, want 1h", got)
	}
}

func TestFailuresAreTriedEverMoreRarely(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		d := pollWait(5*time.Minute, true, n, 0.5)
		if d < last || d < failWait || d > 20*time.Minute {
			t.Fatalf("failure %d: %v behind %v", n, d, last)
		}
		last = d
	}
	if last != 20*time.Minute {
		t.Errorf("in the end %v, want 20m", last)
	}
	if d := pollWait(10*time.Second, false, 50, 0.5); d != 40*time.Second {
		t.Errorf("%v, want 40s", d)
	}
}

func TestRingsAreApart(t *testing.T) {
	for since := time.Duration(0); since < time.Minute; since += time.Second {
		for _, random := range []float64{0, 0.5, 0.999} {
			d := ringWait(since, random)
			if since+d < ringApart || d > ringApart+ringSpread {
				t.Fatalf("%v behind the last look: %v", since, d)
			}
		}
	}
}
