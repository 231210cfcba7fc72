package outbox

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// copied gives what Copy gives up to seq: "behind 2: 3 4 gap5-6 7".
func (x *one) copied(seq uint64) (string, []pipeline.Result) {
	x.Helper()
	pin := x.o.Pin()
	defer pin.Release()
	w, _ := pin.Waiting("s")
	if w.Chain != x.chain[w.Confirmed] {
		x.Errorf("chain at %d is %d", w.Confirmed, w.Chain)
	}
	out := fmt.Sprintf("behind %d:", w.Confirmed)
	var list []pipeline.Result
	err := pin.Copy(x.context(), "s", seq, func(r *pipeline.Result) error {
		if r.Kind == pipeline.ResultGap {
			out += fmt.Sprintf(" gap%d-%d", r.Seq, r.Last)
		} else {
			out += fmt.Sprint(" ", r.Seq)
			if string(r.Payload) != text(r.Seq) || r.Chain != x.chain[r.Seq] {
				x.Errorf("result %d is %+v", r.Seq, r)
			}
		}
		list = append(list, *r)
		return nil
	})
	if err != nil {
		x.Fatal(err)
	}
	return out, list
}

func (x *one) wantCopy(seq uint64, want string) []pipeline.Result {
	x.Helper()
	got, list := x.copied(seq)
	if got != want {
		x.Errorf("copied %q, want %q", got, want)
	}
	return list
}

func TestCopyGivesWhatWaits(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: CheckpointCommit})
	x.wantCopy(0, "behind 0:")
	x.emit(1, 6)
	x.seal(1)
	x.emit(7, 9) // past the barrier, not visible
	x.wantCopy(6, "behind 0: 1 2 3 4 5 6")
	x.o.Released(1)
	x.seek(1, 2)
	x.want("3 4 5 6")
	if err := x.s.Skip(x.context(), 4, 5, "refused"); err != nil {
		t.Fatal(err)
	}
	x.wantCopy(6, "behind 2: 3 gap4-5 6")
	x.wantCopy(4, "behind 2: 3 gap4-4")
	if err := x.s.Confirm(6, x.chain[6]); err != nil {
		t.Fatal(err)
	}
	x.wantCopy(6, "behind 6:")
	x.wantCopy(5, "behind 6:")
	pin := x.o.Pin()
	defer pin.Release()
	if err := pin.Copy(x.context(), "s", 99, func(*pipeline.Result) error { return nil }); !errors.Is(err, ErrNotWhole) {
		t.Errorf("results that were never made: %v", err)
	}
}

// TestCopyReadsWhatIsOnFlashOnly: thousands of results, most of them not in memory.
func TestCopyReadsWhatIsOnFlashOnly(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	const n = 5000
	for first := uint64(1); first < n; first += 50 {
		x.emit(first, first+49)
	}
	if m := x.s.Stats().MemoryBytes; m > 64<<10 {
		t.Fatalf("%d bytes in memory: nothing was written", m)
	}
	_, list := x.copied(n)
	if len(list) != n {
		t.Fatal(len(list))
	}
}

// TestCopyKeepsTheSenderWaiting: what is copied cannot be confirmed and trimmed meanwhile.
func TestCopyKeepsTheSenderWaiting(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 100)
	x.seek(1, 0)
	x.next()
	confirmed := make(chan error, 1)
	pin := x.o.Pin()
	chain := x.chain[100]
	go func() { confirmed <- x.s.Confirm(100, chain) }()
	time.Sleep(10 * time.Millisecond) // when the sender is slower than that, the test proves less, and passes
	n := 0
	if err := pin.Copy(x.context(), "s", 100, func(*pipeline.Result) error { n++; return nil }); err != nil || n != 100 {
		t.Fatal(n, err)
	}
	if c := x.s.Stats().ConfirmedUpTo; c != 0 {
		t.Errorf("confirmed up to %d while it is pinned", c)
	}
	x.emit(101, 103) // the pipeline does not wait
	pin.Release()
	pin.Release()
	if err := <-confirmed; err != nil || x.s.Stats().ConfirmedUpTo != 100 {
		t.Fatal(err)
	}
}

// TestAdoptIsTheInverseOfCopy, also into another outbox, twice, across a power cut, and into one that knows better what upstream holds.
func TestAdoptIsTheInverseOfCopy(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: CheckpointCommit})
	x.emit(1, 9)
	x.seal(1)
	x.o.Released(1)
	x.seek(1, 2)
	x.want("3 4 5 6 7 8 9")
	if err := x.s.Skip(x.context(), 4, 5, "refused"); err != nil {
		t.Fatal(err)
	}
	list := x.wantCopy(9, "behind 2: 3 gap4-5 6 7 8 9")
	from := pipeline.SinkMark{UID: "s", Generation: 1, Seq: 2, Chain: x.chain[2]}

	adopt := func(y *one, from pipeline.SinkMark, inc Incarnation) Range {
		t.Helper()
		r, err := y.o.Adopt(t.Context(), from, inc, func(each func(*pipeline.Result) error) error {
			for _, r := range slices.Clone(list) {
				if err := each(&r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		y.cut(from.Generation, 9, inc)
		return r
	}
	for what, before := range map[string]func(y *one){
		"an empty outbox":                   func(*one) {},
		"one with other results":            func(y *one) { y.emit(1, 4); y.seal(1) },
		"one with results past the last":    func(y *one) { y.emit(1, 30); y.seal(1); y.o.Released(1) },
		"one whose upstream holds up to 7":  func(y *one) { y.emit(1, 8); y.seal(1); y.o.Released(1); y.seek(1, 7) },
		"one that did it before":            func(y *one) { adopt(y, from, Incarnation{Major: 1}) },
		"one that lost power after it":      func(y *one) { adopt(y, from, Incarnation{Major: 1}); y.power() },
		"one that lost power in the middle": func(y *one) { y.emit(1, 9); y.seal(1); y.power() },
	} {
		for _, generation := range []uint64{1, 2} {
			y := newOne(t, StreamOptions{Mode: CheckpointCommit})
			y.results(1, 40, "")
			before(y)
			from := from
			from.Generation = generation
			r := adopt(y, from, Incarnation{Major: 2})
			want := "behind 2: 3 gap4-5 6 7 8 9"
			if generation == 1 && what == "one whose upstream holds up to 7" {
				want = "behind 7: 8 9"
			}
			y.wantCopy(9, want)
			y.power()
			if err := y.o.Whole([]Range{r}); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			y.cut(generation, 9, Incarnation{Major: 2})
			y.wantCopy(9, want)
			y.emit(10, 12) // and it goes on
			y.wantCopy(12, want+" 10 11 12")
		}
	}
}
