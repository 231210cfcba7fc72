package httpsink_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/uplinktest"
	"github.com/weirstream/weir/uplink/wire"
)

var _ uplink.Queue = (*outbox.Stream)(nil)

// device is a gateway with an outbox, a sender and a link to a receiver. Its "pipeline" makes result s from s alone.
type device struct {
	mem     *disktest.Mem
	o       *outbox.Outbox
	s       *outbox.Stream
	seq     uint64
	chain   map[uint64]uint64
	barrier uint64
	mark    pipeline.SinkMark
	ranges  []outbox.Range
	mode    outbox.Mode
	inc     uint32
	stop    context.CancelFunc
	sender  sync.WaitGroup
}

func payload(seq uint64) string { return fmt.Sprintf(`{"n":%d}`, seq) }

func (d *device) start(t *testing.T, url string, rnd *rand.Rand) {
	t.Helper()
	c := outbox.Default()
	c.Log.SegmentBytes, c.Log.MaxBytes, c.Log.ReserveBytes, c.WindowBytes = 16<<10, 1<<20, 0, 4<<10
	var err error
	if d.o, _, err = outbox.Open(outbox.Options{FS: d.mem, Dir: "outbox", Config: c}); err != nil {
		t.Fatal(err)
	}
	if err := d.o.Whole(d.ranges); err != nil {
		t.Fatal(err)
	}
	if d.s, err = d.o.Stream("out", outbox.StreamOptions{Mode: d.mode}); err != nil {
		t.Fatal(err)
	}
	d.inc++
	if err := d.o.Cut(t.Context(), []pipeline.SinkMark{d.mark}, outbox.Incarnation{Major: 1, Minor: d.inc}); err != nil {
		t.Fatal(err)
	}
	d.seq = d.mark.Seq
	hc := httpsink.Default()
	hc.URL, hc.Board = url, "board"
	sink, err := httpsink.New(hc)
	if err != nil {
		t.Fatal(err)
	}
	uc := uplink.Default()
	uc.MaxResults, uc.Backoff = 20, uplink.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond}
	snd, err := uplink.NewSender(uplink.SenderOptions{Config: uc, Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1, Minor: d.inc},
		Queue: d.s, Endpoint: &uplinktest.Lossy{Endpoint: sink, Rand: rand.New(rand.NewPCG(rnd.Uint64(), 1))},
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return errors.New("nothing is rejected here") }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	d.stop = stop
	d.sender.Go(func() {
		if err := snd.Run(ctx); ctx.Err() == nil {
			t.Errorf("sender ended: %v", err)
		}
	})
	t.Cleanup(func() { // of a test that ends early
		stop()
		d.sender.Wait()
	})
}

func (d *device) emit(t *testing.T, n int) {
	t.Helper()
	var results []pipeline.Result
	for range n {
		d.seq++
		p := payload(d.seq)
		d.chain[d.seq] = uplinktest.Chain(d.chain[d.seq-1], p)
		results = append(results, pipeline.Result{Seq: d.seq, Last: d.seq, Chain: d.chain[d.seq], Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(p)})
	}
	if err := d.s.Emit(t.Context(), results); err != nil {
		t.Fatal(err)
	}
}

func (d *device) checkpoint(t *testing.T) {
	t.Helper()
	d.barrier++
	b := pipeline.Barrier{ID: d.barrier}
	if err := d.s.Barrier(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	ranges, err := d.o.Seal(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	d.ranges, d.mark = ranges, pipeline.SinkMark{UID: "out", Generation: 1, Seq: d.seq, Chain: d.chain[d.seq]}
	d.o.Released(b.ID)
}

// power ends the sender and gives what a power cut leaves.
func (d *device) power(t *testing.T, rnd *rand.Rand) {
	t.Helper()
	var images []*disktest.Mem
	c := disktest.Crasher{Seed: rnd.Uint64(), PerCall: 6}
	c.Images(d.mem, 0, func(m *disktest.Mem) { images = append(images, m) })
	d.stop()
	d.sender.Wait()
	if st := d.s.Stats(); st.Divergences != 0 || st.Lost != 0 {
		t.Errorf("%+v", st)
	}
	if err := d.o.Close(); err != nil {
		t.Fatal(err)
	}
	d.mem = images[rnd.IntN(len(images))]
}

// TestExactlyOnceFromOutboxToReceiver runs the real parts from end to end, over a link that loses and repeats, with power cuts of the device
// and restarts of the receiver.
func TestExactlyOnceFromOutboxToReceiver(t *testing.T) {
	for _, mode := range []outbox.Mode{outbox.CheckpointCommit, outbox.ImmediateCommit} {
		t.Run(mode.String(), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			rnd := rand.New(rand.NewPCG(seed, 3))
			path := filepath.Join(t.TempDir(), "r.db")
			r, err := receiver.Open(receiver.Options{Path: path, Config: receiver.Default()})
			if err != nil {
				t.Fatal(err)
			}
			srv := httptest.NewServer(r)
			d := &device{mem: disktest.NewMem(), mode: mode, chain: map[uint64]uint64{}, mark: pipeline.SinkMark{UID: "out", Generation: 1}}
			d.start(t, srv.URL, rnd)
			for round := range 25 {
				for range rnd.IntN(6) {
					d.emit(t, 1+rnd.IntN(30))
					if rnd.IntN(2) == 0 {
						d.checkpoint(t)
					}
				}
				time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
				d.power(t, rnd)
				if round%5 == 4 {
					srv.Close()
					if err := r.Close(); err != nil {
						t.Fatal(err)
					}
					if r, err = receiver.Open(receiver.Options{Path: path, Config: receiver.Default()}); err != nil {
						t.Fatal(err)
					}
					srv = httptest.NewServer(r)
				}
				d.start(t, srv.URL, rnd)
			}
			p, _, err := r.Progress(uplinktest.Stream())
			if err != nil {
				t.Fatal(err)
			}
			d.emit(t, int(max(p.Seq, d.seq)-d.seq)+50)
			d.checkpoint(t)
			for deadline := time.Now().Add(2 * time.Minute); d.s.Stats().ConfirmedUpTo < d.seq; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("seed %d: %+v", seed, d.s.Stats())
				}
			}
			d.stop()
			d.sender.Wait()
			next := uint64(1)
			err = r.Records(uplinktest.Stream(), func(_ uint64, l wire.Line) error {
				if l.Seq != next || l.Gap || string(l.Data) != payload(next) {
					return fmt.Errorf("record %d is %s", next, l.Raw)
				}
				next++
				return nil
			})
			if err != nil || next != d.seq+1 {
				t.Fatalf("seed %d: %d records of %d: %v", seed, next-1, d.seq, err)
			}
			if err := d.o.Close(); err != nil {
				t.Fatal(err)
			}
			srv.Close()
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// BenchmarkDelivery: one result from Emit to confirmed, both ends in this process, with a window's row of 120 bytes.
func BenchmarkDelivery(b *testing.B) {
	r, err := receiver.Open(receiver.Options{Path: filepath.Join(b.TempDir(), "r.db"), Config: receiver.Default()})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	srv := httptest.NewServer(r)
	defer srv.Close()
	c := outbox.Default()
	c.Log.ReserveBytes = 0
	o, _, err := outbox.Open(outbox.Options{FS: disktest.NewMem(), Dir: "o", Config: c})
	if err != nil {
		b.Fatal(err)
	}
	defer o.Close()
	s, err := o.Stream("out", outbox.StreamOptions{Mode: outbox.ImmediateCommit, MaxBytes: 1 << 20})
	if err != nil {
		b.Fatal(err)
	}
	if err := o.Cut(b.Context(), nil, outbox.Incarnation{Major: 1}); err != nil {
		b.Fatal(err)
	}
	hc := httpsink.Default()
	hc.URL = srv.URL
	sink, err := httpsink.New(hc)
	if err != nil {
		b.Fatal(err)
	}
	snd, err := uplink.NewSender(uplink.SenderOptions{Config: uplink.Default(), Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1},
		Queue: s, Endpoint: sink, DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = snd.Run(ctx) })
	row := []byte(`{"device":"d-17","window_start":1767225600000,"window_end":1767225660000,"avg":21.5,"max":23.1,"n":60,"revision":0}`)
	batch := make([]pipeline.Result, 0, 256)
	seq, chain := uint64(0), uint64(0)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; n += len(batch) {
		batch = batch[:0]
		for range min(256, b.N-n) {
			seq++
			chain = uplinktest.Chain(chain, string(row))
			batch = append(batch, pipeline.Result{Seq: seq, Last: seq, Chain: chain, Kind: pipeline.ResultData, Payload: row})
		}
		if err := s.Emit(ctx, batch); err != nil {
			b.Fatal(err)
		}
	}
	for s.Stats().ConfirmedUpTo < seq {
		time.Sleep(100 * time.Microsecond)
	}
	b.StopTimer()
	b.ReportMetric(float64(snd.Metrics().Sent.Load())/float64(snd.Metrics().Batches.Load()), "results/request")
	stop()
	wg.Wait()
}
