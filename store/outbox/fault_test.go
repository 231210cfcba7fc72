package outbox

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestFailedSyncFailsTheCheckpoint: a sync that failed is an error of Seal, of every later one too, and after reopening nothing that it
// should have made durable is taken for durable.
func TestFailedSyncFailsTheCheckpoint(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 3)
	r := x.seal(1)
	x.emit(4, 6)
	x.m.mem.FailSyncs(1)
	for id := uint64(2); id < 4; id++ {
		if err := x.s.Barrier(t.Context(), pipeline.Barrier{ID: id}); err != nil {
			t.Fatal(err)
		}
		if _, err := x.o.Seal(t.Context(), pipeline.Barrier{ID: id}); err == nil {
			t.Fatalf("seal %d after a failed sync succeeded", id)
		}
	}
	x.power()
	if err := x.o.Whole([]Range{r}); err != nil {
		t.Fatal(err)
	}
	x.cut(1, 3, Incarnation{Major: 1})
	x.seek(1, 0)
	x.emit(4, 6)
	x.want("1 2 3 4 5 6")
}
