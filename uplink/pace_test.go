package uplink

import (
	"testing"

	"pgregory.net/rapid"
)

func TestPaceStaysInItsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 10_000).Draw(t, "most")
		p := newPace(most)
		for range rapid.IntRange(0, 60).Draw(t, "steps") {
			n := rapid.IntRange(1, p.bound).Draw(t, "n")
			if rapid.Bool().Draw(t, "cut") {
				p.cut(n)
			} else {
				p.arrived(n)
			}
			if p.bound < 1 || p.bound > most {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// TestPaceComesBack: after an outage of any length the configured size is reached in few batches.
func TestPaceComesBack(t *testing.T) {
	p := newPace(500)
	for range 1000 {
		p.cut(p.bound)
	}
	if p.bound != 1 {
		t.Fatalf("%+v", p)
	}
	batches := 0
	for ; p.bound < 500; batches++ {
		p.arrived(p.bound)
	}
	if batches > 12 {
		t.Errorf("%d batches until the size is what it was", batches)
	}
}

// TestPaceSettles: where batches above a size never go through, no more than a third of the tries is in vain.
func TestPaceSettles(t *testing.T) {
	p := newPace(500)
	tries, cuts, carried := 0, 0, 0
	for range 300 {
		tries++
		if n := p.bound; n > 60 {
			cuts++
			p.cut(n)
		} else {
			carried += n
			p.arrived(n)
		}
	}
	if 3*cuts > tries+20 || carried < 60*tries/3 {
		t.Errorf("%d of %d tries were cut, %d carried", cuts, tries, carried)
	}
}

// TestPaceLearnsNothingFromSmallBatches: a quiet stream does not raise the bound that a cut has lowered.
func TestPaceLearnsNothingFromSmallBatches(t *testing.T) {
	p := newPace(500)
	p.cut(100)
	for range 50 {
		p.arrived(3)
	}
	if p.bound != 50 {
		t.Errorf("%+v", p)
	}
}
