package statedir

import (
	"testing"

	"github.com/weirstream/weir/snapshot/savepoint"
)

// TestStoodTellsStoresApart: a pipeline that changed its store has numbered checkpoints anew, so that a savepoint of before can have the number of the one that it stopped with.
func TestStoodTellsStoresApart(t *testing.T) {
	for _, c := range []struct {
		r    LastRun
		want bool
	}{
		{LastRun{}, false},
		{LastRun{Stopped: 8}, true}, // of an earlier build
		{LastRun{Stopped: 8, Position: 100}, true},
		{LastRun{Stopped: 8, Position: 300}, false},
		{LastRun{Stopped: 9, Position: 100}, false},
	} {
		if got := c.r.StoodAt(&savepoint.Head{Checkpoint: 8, Position: 100}); got != c.want {
			t.Errorf("%+v: %v", c.r, got)
		}
	}
}
