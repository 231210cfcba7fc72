package outbox

import (
	"fmt"
	"testing"
)

// TestNewGenerationCountsFromTheMark: what had left past the mark of a new generation is no part of its ledger, whether the marks were durable or not.
func TestNewGenerationCountsFromTheMark(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		if err := countsFromTheMark(t, sealed, false); err != nil {
			t.Errorf("marks durable %v: %v", sealed, err)
		}
	}
	if err := countsFromTheMark(t, true, true); err == nil {
		t.Error("the planted fault was not found")
	}
}

func countsFromTheMark(t *testing.T, sealed, planted bool) error {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 10)
	x.seal(1)
	x.seek(1, 0)
	x.next()
	if err := x.s.Skip(t.Context(), 8, 8, reasonRejected); err != nil {
		t.Fatal(err)
	}
	if err := x.s.Confirm(10, x.chain[10]); err != nil {
		t.Fatal(err)
	}
	if sealed {
		x.seal(2)
	}
	x.power()
	balanced := func(emitted uint64) error {
		if st := x.s.Stats(); st.Confirmed+st.Dropped+st.Rejected+st.Held != emitted {
			return fmt.Errorf("%d confirmed, %d dropped, %d rejected, %d held of %d emitted", st.Confirmed, st.Dropped, st.Rejected, st.Held, emitted)
		}
		return nil
	}
	for range 2 {
		x.s.countsVoid = planted
		x.cut(2, 6, Incarnation{Major: 2})
		if err := balanced(6); err != nil {
			return err
		}
		x.power() // the cut is durable
	}
	x.cut(2, 6, Incarnation{Major: 2})
	x.seek(1, 10)
	x.emit(7, 9)
	x.want("7 8 9")
	if err := x.s.Confirm(9, x.chain[9]); err != nil {
		t.Fatal(err)
	}
	return balanced(9)
}
