package receiver_test

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
	"github.com/weirstream/weir/uplink/wire"
)

// TestRecordsAfter follows a stream from every sequence, also from within a batch, and from before and behind it.
func TestRecordsAfter(t *testing.T) {
	f := newFar(t, "none")
	e := f.Connect(t, "a")
	inc := uplink.Incarnation{Major: 1}
	send := func(generation, first, last uint64) {
		t.Helper()
		if _, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), inc, generation, first, last)); err != nil {
			t.Fatal(err)
		}
	}
	open := func(generation uint64) {
		t.Helper()
		if _, err := e.Open(t.Context(), uplinktest.Stream(), inc, generation); err != nil {
			t.Fatal(err)
		}
	}
	open(1)
	send(1, 1, 3)
	send(1, 4, 4)
	send(1, 5, 9)
	open(2)
	send(2, 10, 12)
	after := func(generation, seq uint64) (got []string) {
		t.Helper()
		err := f.r.RecordsAfter(uplinktest.Stream(), generation, seq, func(g uint64, l wire.Line) error {
			got = append(got, fmt.Sprint(g, ".", l.Seq))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := after(0, 0)
	if len(all) != 12 {
		t.Fatalf("from the beginning: %v", all)
	}
	for seq := range uint64(10) {
		if got, want := after(1, seq), all[seq:]; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("after 1.%d: %v, want %v", seq, got, want)
		}
	}
	if got := after(2, 11); fmt.Sprint(got) != "[2.12]" {
		t.Errorf("after 2.11: %v", got)
	}
	if got := after(2, 12); len(got) != 0 {
		t.Errorf("after the end: %v", got)
	}

	for range 2 { // repeating it is harmless
		if err := f.r.Remove(uplinktest.Stream(), 1, 7); err != nil {
			t.Fatal(err)
		}
	}
	if got := after(0, 0); fmt.Sprint(got) != fmt.Sprint(all[4:]) {
		t.Errorf("after the removal up to 1.7: %v", got)
	}
	if p, _, err := f.r.Progress(uplinktest.Stream()); err != nil || p.Seq != 12 {
		t.Errorf("progress %+v %v", p, err)
	}
}
