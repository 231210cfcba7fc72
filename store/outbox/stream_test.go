package outbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// one is a world with a single stream, for tests that go step by step.
type one struct {
	testing.TB
	m     medium
	o     *Outbox
	s     *Stream
	opt   StreamOptions
	conf  Config
	chain map[uint64]uint64
	stamp pipeline.Stamp
	div   []uint64
}

func newOne(t testing.TB, opt StreamOptions) *one {
	x := &one{TB: t, m: newMedium(), opt: opt, conf: smallConfig(), chain: map[uint64]uint64{}}
	x.start()
	x.cut(1, 0, Incarnation{Major: 1})
	return x
}

func (x *one) start() {
	x.Helper()
	var err error
	x.o, _, err = Open(Options{FS: x.m.fs(), Dir: "o", Config: x.conf, Stamp: func() pipeline.Stamp { return x.stamp },
		Divergence: func(_ string, seq, _, _ uint64) { x.div = append(x.div, seq) }})
	if err != nil {
		x.Fatal(err)
	}
	if x.s, err = x.o.Stream("s", x.opt); err != nil {
		x.Fatal(err)
	}
	x.Cleanup(func() { _ = x.o.Close() })
}

// power cuts the power, keeping what is durable, and starts again.
func (x *one) power() {
	x.Helper()
	m := x.m.clone()
	_ = x.o.Close()
	x.m = m
	x.start()
}

func (x *one) cut(generation, seq uint64, inc Incarnation) {
	x.Helper()
	if err := x.o.Cut(x.context(), []pipeline.SinkMark{{UID: "s", Generation: generation, Seq: seq, Chain: x.chain[seq]}}, inc); err != nil {
		x.Fatal(err)
	}
}

func (x *one) context() context.Context { return context.Background() }

func text(seq uint64) string { return fmt.Sprintf("row %d", seq) }

func (x *one) results(first, last uint64, variant string) (r []pipeline.Result) {
	for seq := first; seq <= last; seq++ {
		p := text(seq) + variant
		x.chain[seq] = nextChain(x.chain[seq-1], []byte(p))
		r = append(r, pipeline.Result{Seq: seq, Last: seq, Chain: x.chain[seq], Pos: pipeline.Position(seq * 3), Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(p)})
	}
	return r
}

func (x *one) emit(first, last uint64) {
	x.Helper()
	if err := x.s.Emit(x.context(), x.results(first, last, "")); err != nil {
		x.Fatal(err)
	}
}

func (x *one) seal(id uint64) Range {
	x.Helper()
	if err := x.s.Barrier(x.context(), pipeline.Barrier{ID: id}); err != nil {
		x.Fatal(err)
	}
	ranges, err := x.o.Seal(x.context(), pipeline.Barrier{ID: id})
	if err != nil {
		x.Fatal(err)
	}
	return ranges[0]
}

func (x *one) seek(generation, seq uint64) {
	x.Helper()
	if _, _, _, err := x.s.Seek(generation, seq, x.chain[seq]); err != nil {
		x.Fatal(err)
	}
}

// next reads everything visible and prints it: 1 2 gap3-5 6.
func (x *one) next() string {
	x.Helper()
	var out []string
	for {
		x.s.mu.Lock()
		idle := x.s.visible() <= x.s.cursor
		x.s.mu.Unlock()
		if idle {
			return strings.Join(out, " ")
		}
		results, err := x.s.Next(x.context(), 3, 1<<20)
		if err != nil {
			x.Fatal(err)
		}
		for _, r := range results {
			if r.Kind == pipeline.ResultGap {
				out = append(out, fmt.Sprintf("gap%d-%d", r.Seq, r.Last))
				continue
			}
			out = append(out, fmt.Sprint(r.Seq))
			if x.opt.Mode != AtLeastOnce && (string(r.Payload) != text(r.Seq) || r.Chain != x.chain[r.Seq] || r.Pos != pipeline.Position(r.Seq*3) || r.Time != pipeline.NoTime) {
				x.Fatalf("result %d came back as %+v", r.Seq, r)
			}
		}
	}
}

func (x *one) want(want string) {
	x.Helper()
	if got := x.next(); got != want {
		x.Fatalf("got %q, want %q", got, want)
	}
}

func TestCheckpointCommitWaitsForRelease(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: CheckpointCommit})
	x.emit(1, 7)
	x.seal(1)
	x.want("")
	x.o.Released(1)
	x.emit(8, 9)
	x.want("1 2 3 4 5 6 7")
}

func TestReleaseCoversAbortedBarriers(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: CheckpointCommit})
	x.emit(1, 2)
	x.seal(1) // its manifest failed
	x.emit(3, 4)
	x.seal(2)
	x.o.Released(2)
	x.want("1 2 3 4")
}

// TestImmediateConfirmedNeverTouchesFlash: what upstream has before the barrier costs no write at all.
func TestImmediateConfirmedNeverTouchesFlash(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	before := x.s.log.Last()
	x.emit(1, 50)
	if n := strings.Count(x.next(), " ") + 1; n != 50 {
		t.Fatalf("%d results", n)
	}
	if err := x.s.Confirm(50, x.chain[50]); err != nil {
		t.Fatal(err)
	}
	if r := x.seal(1); r != (Range{UID: "s", Generation: 1, Confirmed: 50, Last: 50, ChainConfirmed: x.chain[50]}) {
		t.Fatalf("range %+v", r)
	}
	if x.s.log.Last() != before {
		t.Fatalf("%d records were written", x.s.log.Last()-before)
	}
	x.emit(51, 60)
	if err := x.s.Confirm(53, x.chain[53]); err != nil {
		t.Fatal(err)
	}
	r := x.seal(2)
	x.power()
	if err := x.o.Whole([]Range{r}); err != nil {
		t.Fatal(err)
	}
	x.cut(1, 60, Incarnation{Major: 1})
	x.seek(1, 53)
	x.want("54 55 56 57 58 59 60")
}

func TestRule10_RangeThatIsNotWholeIsNamed(t *testing.T) {
	x := newOne(t, StreamOptions{})
	x.emit(1, 5)
	r := x.seal(1)
	r.Last = 8
	if err := x.o.Whole([]Range{r}); !errors.Is(err, ErrNotWhole) || !strings.Contains(err.Error(), "6 is the first missing") {
		t.Fatalf("%v", err)
	}
	r.UID = "nobody"
	if err := x.o.Whole([]Range{r}); !errors.Is(err, ErrNotWhole) {
		t.Fatalf("a stream that is not there: %v", err)
	}
	r.Confirmed = 8
	if err := x.o.Whole([]Range{r}); err != nil {
		t.Fatalf("all confirmed: %v", err)
	}
}

// TestRule09_ReplayIsDroppedAndCompared: upstream holds more than the checkpoint; equal results are dropped, others are reported.
func TestRule09_ReplayIsDroppedAndCompared(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 4)
	x.seal(1)
	x.emit(5, 9)
	x.power()
	x.cut(1, 4, Incarnation{Major: 1})
	x.seek(1, 8)
	x.emit(5, 10)
	x.want("9 10")
	if st := x.s.Stats(); st.Known != 4 || st.Divergences != 0 || st.Confirmed != 8 {
		t.Fatalf("%+v", st)
	}
	x.power()
	x.cut(1, 4, Incarnation{Major: 1})
	x.seek(1, 8)
	if err := x.s.Emit(t.Context(), x.results(5, 10, " other")); err != nil {
		t.Fatal(err)
	}
	if len(x.div) != 1 || x.div[0] != 8 {
		t.Fatalf("divergences at %v, want 8", x.div)
	}
}

// TestDivergenceFoundAtSeek: the replay ran before the link came up.
func TestDivergenceFoundAtSeek(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	held := x.results(1, 9, "")
	if err := x.s.Emit(t.Context(), x.results(1, 9, " other")); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := x.s.Seek(1, 6, held[5].Chain); err != nil || len(x.div) != 1 || x.div[0] != 6 {
		t.Fatalf("divergences at %v (%v), want 6", x.div, err)
	}
}

// TestRule23_NewGenerationBeginsAtTheMark: the restore went behind what upstream holds; unconfirmed results below the
// mark still go, those above are another generation's.
func TestRule23_NewGenerationBeginsAtTheMark(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 10)
	x.seal(1)
	x.power()
	x.cut(2, 6, Incarnation{Major: 2})
	x.seek(1, 4) // upstream's run is still the old generation's
	x.want("5 6")
	x.power()
	x.cut(2, 6, Incarnation{Major: 2})
	x.seek(1, 9) // upstream holds 7 to 9 of the old generation: they are not these
	x.emit(7, 8)
	x.want("7 8")
	if _, _, _, err := x.s.Seek(3, 0, 0); err == nil {
		t.Fatal("upstream in a higher generation was accepted")
	}
	if err := x.o.Cut(t.Context(), []pipeline.SinkMark{{UID: "s", Generation: 1, Seq: 3}}, Incarnation{Major: 2}); err == nil {
		t.Fatal("a generation that has ended was begun again")
	}
	r := x.seal(2)
	x.power()
	if err := x.o.Whole([]Range{r}); err != nil {
		t.Fatal(err)
	}
	r.Generation = 1
	if err := x.o.Whole([]Range{r}); !errors.Is(err, ErrNotWhole) {
		t.Fatalf("range of the old generation past its end: %v", err)
	}
}

// TestRule26_DropIncarnation: what a rolled-back incarnation wrote is void, also after a power cut.
func TestRule26_DropIncarnation(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 3)
	x.seal(1)
	next := Incarnation{Major: 1, Minor: 1}
	x.cut(1, 3, next)
	x.emit(4, 6)
	x.seal(2)
	if err := x.o.Drop(t.Context(), next); err != nil {
		t.Fatal(err)
	}
	x.power()
	if last := x.s.Stats().Last; last != 3 {
		t.Fatalf("last is %d after the drop, want 3", last)
	}
	x.cut(1, 3, Incarnation{Major: 1, Minor: 2})
	x.seek(1, 0)
	x.want("1 2 3")
}

func TestUpstreamLostWhatItConfirmed(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 9)
	x.next()
	if err := x.s.Confirm(7, x.chain[7]); err != nil {
		t.Fatal(err)
	}
	_, first, last, err := x.s.Seek(1, 3, 0)
	if err != nil || first != 4 || last != 7 {
		t.Fatalf("lost %d..%d %v, want 4..7", first, last, err)
	}
	x.want("8 9")
}

// TestAtLeastOnceRenumbers: results made again get numbers behind those that upstream holds, so that a receiver that
// deduplicates by sequence loses none of them; nothing diverges.
func TestAtLeastOnceRenumbers(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: AtLeastOnce})
	x.emit(1, 4)
	x.seal(1)
	x.emit(5, 9)
	x.seek(1, 0)
	x.want("1 2 3 4 5 6 7 8 9")
	x.power() // 5 to 9 were never written; upstream took up to 8
	x.cut(1, 4, Incarnation{Major: 1})
	if err := x.s.Emit(t.Context(), x.results(5, 7, " again")); err != nil {
		t.Fatal(err)
	}
	x.seal(2) // before the link is up
	x.seek(1, 8)
	x.want("9 10 11")
	x.power()
	x.cut(1, 7, Incarnation{Major: 1})
	x.seek(1, 10)
	x.want("11")
	if err := x.s.Emit(t.Context(), x.results(8, 8, "")); err != nil {
		t.Fatal(err)
	}
	x.want("12")
	if len(x.div) != 0 {
		t.Fatalf("divergences at %v", x.div)
	}
}

func TestCloseEndsWaiters(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	end := make(chan error)
	go func() {
		_, err := x.s.Next(context.Background(), 1, 1)
		end <- err
	}()
	if err := x.o.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-end; !errors.Is(err, ErrClosed) {
		t.Fatalf("%v, want ErrClosed", err)
	}
}

func TestForgottenStreamFreesTheLog(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 5)
	x.seal(1)
	if err := x.o.Forget(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	_ = x.o.Close()
	o, rec, err := Open(Options{FS: x.m.fs(), Dir: "o", Config: x.conf})
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	if rec.Results != 0 || len(o.Sinks()) != 0 {
		t.Fatalf("%+v, sinks %v", rec, o.Sinks())
	}
}

func TestEmitOutOfSequenceIsRefused(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 2)
	if err := x.s.Emit(t.Context(), x.results(4, 4, "")); !errors.Is(err, ErrSequence) {
		t.Fatalf("%v, want ErrSequence", err)
	}
	if _, err := x.o.Seal(t.Context(), pipeline.Barrier{ID: 9}); !errors.Is(err, ErrBarrier) {
		t.Fatalf("%v, want ErrBarrier", err)
	}
}
