package uplink_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// narrow is a link of 64 kbit/s with 2 s there and back, on which 5 % of the seconds end the connection, before a perfect upstream. Time is virtual.
type narrow struct {
	uplink.Endpoint
	rand    *rand.Rand
	carried int // bytes
}

const narrowBytesPerSecond = 64_000 / 8

func (n *narrow) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	bytes := 0
	for i := range b.Results {
		bytes += len(b.Results[i].Payload)
	}
	for left := bytes; left > 0; left -= narrowBytesPerSecond {
		if n.rand.IntN(100) < 5 {
			return uplink.Answer{}, errors.New("connection reset")
		}
		n.carried += min(left, narrowBytesPerSecond)
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return uplink.Answer{}, ctx.Err()
		}
	}
	ans, err := n.Endpoint.Send(ctx, b)
	if time.Sleep(2 * time.Second); n.rand.IntN(100) < 5 { // the answer is lost
		return uplink.Answer{}, errors.New("connection reset")
	}
	return ans, err
}

// TestBatchesFitTheLink: results of 1 KiB in batches of 500 take longer than the 30 s that a request has. Everything arrives, with a
// good part of the bandwidth; with the planted fault nothing does.
func TestBatchesFitTheLink(t *testing.T) {
	const n = 2000
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	run := func(plant bool) (confirmed uint64, share float64, err error) {
		synctest.Test(t, func(t *testing.T) {
			u := uplinktest.NewUpstream(nil)
			e := &narrow{Endpoint: u.Connect(), rand: rand.New(rand.NewPCG(seed, 1))}
			q := uplinktest.NewQueue(1, 0)
			pad := strings.Repeat("x", 1<<10)
			var want []string
			for range n {
				want = append(want, pad)
			}
			q.Add(want...)
			c := uplink.Default()
			c.MaxBytes = 1 << 20
			s, nerr := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: uplinktest.Stream(), Generation: 1, Queue: q, Endpoint: e,
				DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
			if nerr != nil {
				t.Fatal(nerr)
			}
			if plant {
				s.HoldPace()
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			start := time.Now()
			var wg sync.WaitGroup
			wg.Go(func() { _ = s.Run(ctx) })
			for q.Confirmed() < n && ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			share = float64(q.Confirmed()) * float64(len(pad)) / (narrowBytesPerSecond * time.Since(start).Seconds())
			cancel()
			wg.Wait()
			confirmed = q.Confirmed()
			if !plant {
				err = uplinktest.Exact(u.Records(), want, nil)
			}
		})
		return confirmed, share, err
	}
	confirmed, share, err := run(false)
	if err != nil || confirmed != n {
		t.Fatalf("confirmed up to %d of %d: %v", confirmed, n, err)
	}
	t.Logf("%.0f %% of the bandwidth carried results that arrived for the first time", 100*share)
	if share < 0.15 { // with 150 seeds: 0.35 to 0.64
		t.Errorf("only %.0f %% of the bandwidth was of use", 100*share)
	}
	if confirmed, _, _ := run(true); confirmed > 0 {
		t.Errorf("the planted fault was not found: %d results arrived", confirmed)
	}
}
