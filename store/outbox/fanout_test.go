package outbox

import (
	"fmt"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// fan is an outbox with several streams, in checkpoint commit.
type fan struct {
	testing.TB
	o       *Outbox
	s       []*Stream
	seq     []uint64
	barrier uint64
}

func newFan(t testing.TB, c Config, f faults, opts ...StreamOptions) *fan {
	t.Helper()
	x := &fan{TB: t, seq: make([]uint64, len(opts))}
	var err error
	var fsys disk.FS = newMedium().fs()
	dir := "o"
	if _, bench := t.(*testing.B); bench {
		fsys, dir = disk.OS, t.TempDir()
	}
	if x.o, _, err = Open(Options{FS: fsys, Dir: dir, Config: c}); err != nil {
		t.Fatal(err)
	}
	x.o.faults = f
	for i, opt := range opts {
		s, err := x.o.Stream(fmt.Sprint("sink", i), opt)
		if err != nil {
			t.Fatal(err)
		}
		x.s = append(x.s, s)
	}
	if err := x.o.Cut(t.Context(), nil, Incarnation{Major: 1}); err != nil {
		t.Fatal(err)
	}
	return x
}

// noise does not compress.
func noise(seed uint64, n int) []byte {
	p := make([]byte, n)
	for i := range p {
		seed = seed*6364136223846793005 + 1442695040888963407
		p[i] = byte(seed >> 56)
	}
	return p
}

func (x *fan) emit(i, n, bytes int) error {
	for range n {
		x.seq[i]++
		r := pipeline.Result{Seq: x.seq[i], Last: x.seq[i], Kind: pipeline.ResultData, Payload: noise(x.seq[i], bytes)}
		if err := x.s[i].Emit(x.Context(), []pipeline.Result{r}); err != nil {
			return err
		}
	}
	return nil
}

func (x *fan) checkpoint() error {
	x.barrier++
	b := pipeline.Barrier{ID: x.barrier}
	for _, s := range x.s {
		if err := s.Barrier(x.Context(), b); err != nil {
			return err
		}
	}
	if _, err := x.o.Seal(x.Context(), b); err != nil {
		return err
	}
	x.o.Released(b.ID)
	return nil
}

// live runs so many checkpoints: stream 0 has one result and no upstream, stream 1 many, all confirmed.
func (x *fan) live(checkpoints int) error {
	if err := x.emit(0, 1, 100); err != nil {
		return err
	}
	for range checkpoints {
		if err := x.emit(1, 40, 100); err != nil {
			return err
		}
		if err := x.checkpoint(); err != nil {
			return err
		}
		if err := x.s[1].Confirm(x.seq[1], 0); err != nil {
			return err
		}
	}
	return nil
}

// TestADeadSinkTakesNothingFromOthers: one result that cannot leave must not keep what another sink has delivered long ago.
func TestADeadSinkTakesNothingFromOthers(t *testing.T) {
	c := smallConfig()
	c.Log.MaxBytes = 8 * c.Log.SegmentBytes
	x := newFan(t, c, faults{}, StreamOptions{}, StreamOptions{})
	if err := x.live(200); err != nil {
		t.Fatal(err)
	}
	if live := x.s[1].log.Stats().LiveBytes; live > 3*c.Log.SegmentBytes {
		t.Errorf("%d bytes are kept for a sink that has delivered all", live)
	}
	if st := x.s[0].Stats(); st.Waiting != 1 {
		t.Errorf("%+v", st)
	}
	if err := newFan(t, c, faults{sharedPin: true}, StreamOptions{}, StreamOptions{}).live(200); err == nil {
		t.Error("the planted fault was not found")
	}
}

// BenchmarkSeal: what a checkpoint costs with three sinks, and with one that has as many results (what one log for all cost).
func BenchmarkSeal(b *testing.B) {
	for _, each := range []int{1, 10, 100, 1000} {
		for _, sinks := range []int{1, 3} {
			b.Run(fmt.Sprintf("results=%d/sinks=%d", 3*each, sinks), func(b *testing.B) {
				c := Default()
				x := newFan(b, c, faults{}, make([]StreamOptions, sinks)...)
				for b.Loop() {
					for i := range sinks {
						if err := x.emit(i, 3*each/sinks, 100); err != nil {
							b.Fatal(err)
						}
					}
					if err := x.checkpoint(); err != nil {
						b.Fatal(err)
					}
					for i := range sinks {
						if err := x.s[i].Confirm(x.seq[i], 0); err != nil {
							b.Fatal(err)
						}
					}
				}
				st := x.o.Stats()
				b.ReportMetric(float64(st.Pages)/float64(b.N), "pages/op")
				b.ReportMetric(float64(st.Syncs)/float64(b.N), "syncs/op")
				if err := x.o.Close(); err != nil {
					b.Fatal(err)
				}
			})
		}
	}
}
