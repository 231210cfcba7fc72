package pace

import (
	"testing"
	"time"
)

var usual = Pace{Poll: 5 * time.Minute, Spread: 2 * time.Minute}

func TestWaitsAreSpreadByAFifth(t *testing.T) {
	if lo, hi := usual.Look(false, 0, 0), usual.Look(false, 0, 0.999999); lo != 4*time.Minute || hi < 359*time.Second || hi > 6*time.Minute {
		t.Errorf("%v to %v, want 4m to 6m", lo, hi)
	}
	if got := usual.Look(true, 0, 0.5); got != time.Hour {
		t.Errorf("with a doorbell %v, want 1h", got)
	}
}

func TestFailuresAreTriedEverMoreRarely(t *testing.T) {
	last := time.Duration(0)
	for n := 1; n < 100; n++ {
		d := usual.Look(true, n, 0.5)
		if d < last || d < FailWait || d > 20*time.Minute {
			t.Fatalf("failure %d: %v behind %v", n, d, last)
		}
		last = d
	}
	if last != 20*time.Minute {
		t.Errorf("in the end %v, want 20m", last)
	}
	if d := (Pace{Poll: 10 * time.Second}).Look(false, 50, 0.5); d != 40*time.Second {
		t.Errorf("%v, want 40s", d)
	}
}

func TestRingsAreApart(t *testing.T) {
	for since := time.Duration(0); since < time.Minute; since += time.Second {
		for _, random := range []float64{0, 0.5, 0.999} {
			d := usual.Ring(since, random)
			if since+d < RingApart || d > RingApart+usual.Spread {
				t.Fatalf("%v behind the last look: %v", since, d)
			}
		}
	}
}

// TestWhatComesToAllIsSpread: over all of the setting, from its beginning; and over no more than a gateway takes that has heard nothing.
func TestWhatComesToAllIsSpread(t *testing.T) {
	for _, c := range []struct {
		pace Pace
		most time.Duration
	}{{usual, 2 * time.Minute}, {Pace{Poll: 10 * time.Second, Spread: 2 * time.Minute}, 10 * time.Second}, {Pace{Poll: 5 * time.Minute}, 0}, {Pace{Poll: time.Hour, Spread: 15 * time.Minute}, 15 * time.Minute}} {
		for what, wait := range map[string]func(float64) time.Duration{"start": c.pace.First, "fetch": c.pace.Fetch, "ring": func(r float64) time.Duration { return c.pace.Ring(time.Hour, r) }} {
			if d := wait(0); d != 0 {
				t.Errorf("%+v: %s: nobody begins at once, the first waits %v", c.pace, what, d)
			}
			if d := wait(0.999999); d > c.most || d < c.most-c.most/1000 {
				t.Errorf("%+v: %s: the last waits %v, want %v", c.pace, what, d, c.most)
			}
			if d := wait(0.5); d != c.most/2 {
				t.Errorf("%+v: %s: the one in the middle waits %v, want %v", c.pace, what, d, c.most/2)
			}
		}
	}
}
