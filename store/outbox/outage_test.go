package outbox

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestTTLTurnsOldResultsIntoAGap(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit, TTL: time.Minute})
	x.emit(1, 4)
	x.seal(1)
	x.stamp.Elapsed = int64(50 * time.Second)
	x.emit(5, 8)
	x.seal(2)
	x.stamp.Elapsed = int64(70 * time.Second)
	x.seek(1, 0)
	x.want("gap1-4 5 6 7 8")
	if st := x.s.Stats(); st.Expired != 4 {
		t.Fatalf("%+v", st)
	}
	x.power()
	x.cut(1, 8, Incarnation{Major: 1})
	x.seek(1, 2)
	x.want("gap3-4 5 6 7 8")
}

func TestSkipReplacesWithAGapForEver(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 5)
	x.next()
	if err := x.s.Skip(t.Context(), 3, 3, "rejected"); err != nil {
		t.Fatal(err)
	}
	x.seal(1)
	x.power()
	x.cut(1, 5, Incarnation{Major: 1})
	x.seek(1, 0)
	x.want("1 2 gap3-3 4 5")
}

// TestBoundBatchComesBack: bounds survive the power cut, and Next waits until the whole batch was made again.
func TestBoundBatchComesBack(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	x.emit(1, 3)
	if err := x.s.Bind(t.Context(), 1, 3); err != nil {
		t.Fatal(err)
	}
	x.power()
	x.cut(1, 0, Incarnation{Major: 1})
	x.s.Resume()
	x.emit(1, 2)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if r, err := x.s.Next(ctx, 1, 1); err == nil {
		t.Fatalf("a part of a bound batch came: %+v", r)
	}
	x.emit(3, 6)
	r, err := x.s.Next(t.Context(), 1, 1)
	if err != nil || len(r) != 3 || r[2].Seq != 3 {
		t.Fatalf("%+v %v, want 1..3", r, err)
	}
	if err := x.s.Confirm(3, 0); err != nil {
		t.Fatal(err)
	}
	if r, err = x.s.Next(t.Context(), 1, 1); err != nil || len(r) != 1 || r[0].Seq != 4 {
		t.Fatalf("%+v %v, want 4 alone", r, err)
	}
}

// TestLongOutageStaysInBounds: a backlog of many windows waits in the log, is read back exactly, and its space returns.
func TestLongOutageStaysInBounds(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: ImmediateCommit})
	const n = 20_000
	for seq := uint64(1); seq <= n; seq += 50 {
		x.emit(seq, seq+49)
		if m := x.s.Stats().MemoryBytes; m > x.conf.WindowBytes+1000 {
			t.Fatalf("%d bytes in memory, the window has %d", m, x.conf.WindowBytes)
		}
	}
	live := x.s.log.Stats().LiveBytes
	x.seek(1, 0)
	for seq := uint64(0); seq < n; {
		results, err := x.s.Next(t.Context(), 40, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if seq++; r.Seq != seq || string(r.Payload) != text(seq) || r.Chain != x.chain[seq] {
				t.Fatalf("result %d came back as %+v", seq, r)
			}
		}
		if err := x.s.Confirm(seq, x.chain[seq]); err != nil {
			t.Fatal(err)
		}
	}
	if after := x.s.log.Stats().LiveBytes; after > live/4 {
		t.Fatalf("%d bytes live in the log after all was confirmed, %d before", after, live)
	}
}

func TestBlockHoldsThePipelineUntilConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := newOne(t, StreamOptions{Mode: ImmediateCommit, MaxBytes: 60})
		defer x.o.Close()
		emitted, list := false, x.results(1, 30, "")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if err := x.s.Emit(x.context(), list); err != nil {
				t.Error(err)
			}
			emitted = true
		}()
		synctest.Wait()
		if emitted {
			t.Error("30 results of 5 bytes and more fit into 60 bytes")
		}
		for seq := uint64(0); seq < 30; {
			results, err := x.s.Next(t.Context(), 5, 1<<20)
			if err != nil {
				t.Fatal(err)
			}
			seq = results[len(results)-1].Seq
			if err := x.s.Confirm(seq, x.chain[seq]); err != nil {
				t.Fatal(err)
			}
		}
		<-done
	})
}
