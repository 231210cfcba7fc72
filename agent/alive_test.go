package agent

import (
	"testing"
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
