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

// TestLedgerSums: emitted is what left as data or as a gap, and what is here, at each step; with a planted miscount it is not.
func TestLedgerSums(t *testing.T) {
	for _, planted := range []bool{false, true} {
		x := newOne(t, StreamOptions{Mode: ImmediateCommit})
		x.s.miscounts = planted
		off := 0
		look := func() {
			if st := x.s.Stats(); st.Last != st.Confirmed+st.Dropped+st.Rejected+st.Held {
				off++
			}
		}
		x.emit(1, 9)
		look()
		if err := x.s.Skip(t.Context(), 3, 3, "rejected: too long"); err != nil {
			t.Fatal(err)
		}
		if err := x.s.Skip(t.Context(), 5, 6, "dropped"); err != nil {
			t.Fatal(err)
		}
		look()
		for _, seq := range []uint64{2, 4, 5, 9} {
			if err := x.s.Confirm(seq, 0); err != nil {
				t.Fatal(err)
			}
			look()
		}
		if st := x.s.Stats(); !planted && (st.Confirmed != 6 || st.Dropped != 2 || st.Rejected != 1 || st.Held != 0) {
			t.Errorf("%+v", st)
		}
		if (off > 0) != planted {
			t.Errorf("planted %v: the sums do not match %d times", planted, off)
		}
	}
}
