package outbox

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestRule26_RevokeLeavesWhatStoodBefore: nothing leaves while a plan is on probation, and nothing that it made is there behind a revoke and a power cut, in any mode.
func TestRule26_RevokeLeavesWhatStoodBefore(t *testing.T) {
	for _, mode := range []Mode{CheckpointCommit, ImmediateCommit, AtLeastOnce} {
		x := newOne(t, StreamOptions{Mode: mode})
		x.emit(1, 3)
		x.seal(1)
		ends := x.o.Ends()
		x.power()
		x.o.HoldBack()
		x.cut(1, 3, Incarnation{Major: 1})
		x.emit(4, 6)
		x.seal(2)
		x.o.Released(2)
		if st := x.s.Stats(); st.VisibleUpTo != st.ConfirmedUpTo || st.Last <= ends[0].Seq {
			t.Errorf("%v: %+v", mode, st)
		}
		x.power()
		for range 2 { // a repeat is harmless
			if err := x.o.Revoke(t.Context(), ends); err != nil {
				t.Fatal(err)
			}
		}
		x.power()
		if last := x.o.Ends()[0].Seq; last != ends[0].Seq {
			t.Errorf("%v: the last result is %d, want %d", mode, last, ends[0].Seq)
		}
		if err := x.o.Revoke(t.Context(), []pipeline.SinkMark{}); err != nil {
			t.Fatal(err)
		}
		if last := x.o.Ends()[0].Seq; last != 0 {
			t.Errorf("%v: a stream without an end holds %d", mode, last)
		}
	}
}

// TestLetGoGivesWhatWasHeld to the sender, in order.
func TestLetGoGivesWhatWasHeld(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.o.HoldBack()
	x.emit(1, 5)
	if st := x.s.Stats(); st.VisibleUpTo != 0 {
		t.Errorf("%+v", st)
	}
	x.o.LetGo()
	x.want("1 2 3 4 5")
}
