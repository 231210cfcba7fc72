package uplink

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// run makes a batch from a picture: d data, g a gap of two sequences.
func run(first uint64, picture string) *Batch {
	b := &Batch{Previous: first - 1, First: first}
	seq := first
	for _, c := range picture {
		r := pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData}
		if c == 'g' {
			r.Kind, r.Last = pipeline.ResultGap, seq+1
		}
		b.Results = append(b.Results, r)
		seq = r.Last + 1
	}
	b.Last = seq - 1
	return b
}

func TestDecide(t *testing.T) {
	named := func(seqs ...uint64) (r []Rejected) {
		for _, s := range seqs {
			r = append(r, Rejected{Seq: s, Reason: "bad"})
		}
		return r
	}
	down := errors.New("connection refused")
	for _, c := range []struct {
		name    string
		batch   *Batch
		ans     Answer
		err     error
		want    action
		upTo    uint64
		rejects int
	}{
		{"all durable", run(5, "ddd"), Answer{Durable: 7}, nil, actionDone, 7, 0},
		{"more than the batch durable", run(5, "ddd"), Answer{Durable: 90}, nil, actionDone, 7, 0},
		{"only confirm can tell", run(5, "ddd"), Answer{}, nil, actionConfirm, 0, 0},
		{"a head is durable", run(5, "ddd"), Answer{Durable: 6}, nil, actionPartial, 6, 0},
		{"nothing taken, no reason", run(5, "ddd"), Answer{Durable: 4}, nil, actionAgain, 0, 0},
		{"it holds less than assumed", run(5, "ddd"), Answer{Durable: 3}, nil, actionReopen, 0, 0},
		{"fenced", run(5, "d"), Answer{}, fmt.Errorf("send: %w", ErrFenced), actionStop, 0, 0},
		{"hole", run(5, "d"), Answer{}, fmt.Errorf("send: %w", ErrHole), actionReopen, 0, 0},
		{"link down", run(5, "d"), Answer{}, down, actionAgain, 0, 0},
		{"contended", run(5, "d"), Answer{}, fmt.Errorf("send: %w", ErrContended), actionAgain, 0, 0},
		{"busy", run(5, "d"), Answer{}, &RetryAfter{Wait: time.Minute, Err: down}, actionAgain, 0, 0},
		{"named", run(5, "ddd"), Answer{Rejected: named(6)}, nil, actionReject, 0, 1},
		{"named twice and outside", run(5, "ddd"), Answer{Rejected: named(6, 6, 99, 1)}, nil, actionReject, 0, 1},
		{"named behind a durable head", run(5, "ddd"), Answer{Durable: 5, Rejected: named(6)}, nil, actionReject, 5, 1},
		{"only outsiders named: split", run(5, "ddd"), Answer{Rejected: named(99)}, nil, actionSplit, 0, 0},
		{"a gap named, one record: it is the one", run(5, "gd"), Answer{Rejected: named(5)}, nil, actionReject, 0, 1},
		{"unnamed, many", run(5, "dd"), Answer{}, ErrRejected, actionSplit, 0, 0},
		{"unnamed, too large", run(5, "dgd"), Answer{}, ErrTooLarge, actionSplit, 0, 0},
		{"unnamed, alone among gaps", run(5, "gdg"), Answer{}, ErrRejected, actionReject, 0, 1},
		{"unnamed, gaps alone", run(5, "g"), Answer{}, ErrRejected, actionAgain, 0, 0},
	} {
		d := decide(c.batch, c.ans, c.err)
		if d.action != c.want || d.upTo != c.upTo && c.want != actionReject || len(d.rejected) != c.rejects {
			t.Errorf("%s: %s up to %d, %d rejected; want %s up to %d, %d", c.name, d.action, d.upTo, len(d.rejected), c.want, c.upTo, c.rejects)
		}
		if (d.action == actionAgain || d.action == actionReopen || d.action == actionStop) && d.err == nil {
			t.Errorf("%s: no reason", c.name)
		}
		if busy := c.name == "busy" || c.name == "contended"; d.busy != busy {
			t.Errorf("%s: the link is at fault: %t", c.name, !d.busy)
		}
	}
}

// TestHalvesAndBehind: splitting and shortening lose no sequence, and a split always gets smaller.
func TestHalvesAndBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := run(rapid.Uint64Range(1, 1000).Draw(t, "first"), rapid.StringMatching(`[dg]*d[dg]*d[dg]*`).Draw(t, "picture"))
		left, right := halves(b)
		if left.First != b.First || left.Last+1 != right.First || right.Last != b.Last || left.Previous != b.Previous || right.Previous != left.Last {
			t.Fatalf("%d..%d and %d..%d of %d..%d", left.First, left.Last, right.First, right.Last, b.First, b.Last)
		}
		if len(left.Results) == len(b.Results) || len(right.Results) == len(b.Results) {
			t.Fatal("a half is the whole")
		}
		upTo := rapid.Uint64Range(b.Previous, b.Last-1).Draw(t, "durable")
		rest := behind(b, upTo)
		if rest.First != upTo+1 || rest.Previous != upTo || rest.Last != b.Last {
			t.Fatalf("behind %d: %d..%d of %d..%d", upTo, rest.First, rest.Last, b.First, b.Last)
		}
	})
}

func TestIdempotencyKeyNamesContent(t *testing.T) {
	a, b := run(5, "ddd"), run(5, "ddd")
	if a.IdempotencyKey() != b.IdempotencyKey() {
		t.Error("the same batch has two keys")
	}
	b.Results[1].Kind = pipeline.ResultGap
	if a.IdempotencyKey() == b.IdempotencyKey() {
		t.Error("a batch without its rejected record has the refused one's key")
	}
}

func TestBackoffDoublesWithJitter(t *testing.T) {
	b := Backoff{Min: 100 * time.Millisecond, Max: 3 * time.Second}
	for n, want := range []time.Duration{100, 200, 400, 800, 1600, 3000, 3000} {
		want *= time.Millisecond
		lo, hi := b.Delay(n, 0), b.Delay(n, 0.999999)
		if lo != want/2 || hi > want || hi < want*9/10 {
			t.Errorf("retry %d waits %s to %s, want %s to %s", n, lo, hi, want/2, want)
		}
	}
	if d := b.Delay(1000, 0); d != b.Max/2 {
		t.Errorf("retry 1000 waits %s", d)
	}
}
