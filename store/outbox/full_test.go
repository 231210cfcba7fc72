package outbox

import (
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// TestFullLogHoldsAndGoesOn: the log reaches its limit while the link is down; the pipeline is held, not failed, and everything
// goes through once the link is back.
func TestFullLogHoldsAndGoesOn(t *testing.T) {
	for _, c := range []struct {
		name string
		opt  StreamOptions
	}{{"block", StreamOptions{Mode: ImmediateCommit}}, {"drop_oldest", StreamOptions{Mode: ImmediateCommit, OnFull: DropOldest}}} {
		t.Run(c.name, func(t *testing.T) {
			x := &one{TB: t, m: newMedium(), opt: c.opt, conf: smallConfig(), chain: map[uint64]uint64{}}
			x.conf.Log.MaxBytes = 6 * x.conf.Log.SegmentBytes
			x.start()
			x.cut(1, 0, Incarnation{Major: 1})
			const n = 8000
			results := x.results(1, n, "")
			var wg sync.WaitGroup
			wg.Go(func() {
				for i := 0; i < n; i += 100 {
					if err := x.s.Emit(t.Context(), results[i:i+100]); err != nil {
						t.Error(err)
						return
					}
					if m := x.s.Stats().MemoryBytes; m > 6*x.conf.WindowBytes {
						t.Errorf("%d bytes in memory", m)
						return
					}
				}
			})
			dropped := func() bool { return c.opt.OnFull == Block || x.s.Stats().Overflowed > 0 }
			for deadline := time.Now().Add(2 * time.Minute); !(x.s.log.Stats().Full && dropped()) && x.s.Stats().Emitted < n; {
				if time.Now().After(deadline) {
					t.Fatal("the log never became full")
				}
				time.Sleep(time.Millisecond)
			}
			x.seek(1, 0)
			var data, gaps uint64
			for seq := uint64(0); seq < n; {
				got, err := x.s.Next(t.Context(), 50, 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range got {
					if r.Seq != seq+1 {
						t.Fatalf("%d after %d", r.Seq, seq)
					}
					seq = r.Last
					if r.Kind == pipeline.ResultGap {
						gaps += r.Last - r.Seq + 1
					} else {
						data++
					}
				}
				if err := x.s.Confirm(seq, 0); err != nil {
					t.Fatal(err)
				}
			}
			wg.Wait()
			if c.opt.OnFull == Block && gaps != 0 || c.opt.OnFull == DropOldest && gaps == 0 || data+gaps != n {
				t.Fatalf("%d as data, %d as gaps", data, gaps)
			}
			if st := x.s.Stats(); st.Dropped != gaps || st.Confirmed != data {
				t.Fatalf("%+v", st)
			}
		})
	}
}

// TestReleaseDropsWhatIsTooMuch: results that no checkpoint has released cannot be dropped; when one does, the limit holds again, without
// another result.
func TestReleaseDropsWhatIsTooMuch(t *testing.T) {
	x := newOne(t, StreamOptions{Mode: CheckpointCommit, OnFull: DropOldest, MaxBytes: 200})
	for n := uint64(1); n < 400; n += 20 {
		x.emit(n, n+19)
	}
	if b := x.s.Stats().WaitingBytes; b < 2000 {
		t.Fatalf("%d bytes wait before the release", b)
	}
	x.seal(1)
	x.o.Released(1)
	if st := x.s.Stats(); st.WaitingBytes > 400 || st.Overflowed == 0 || st.Held != st.Last {
		t.Errorf("%+v", st)
	}
}
