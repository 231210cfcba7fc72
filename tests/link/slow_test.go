// Package link shows that every sink that has a server works over a bad link: 64 kbit/s, 2 s there and back, and 5 % of the seconds in which
// something is sent end the connection.
package link

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/ends"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

func TestMain(m *testing.M) { ends.Main(m) }

// patience is for a machine that has much else to do.
const patience = rig.Patience

// wireMost bounds the bytes sent for each byte of results: headers (of NATS three times a short row), handshakes, and what was sent in vain, which is half as much with each try:
// six of NATS on a busy machine, four times that where every answer of the first minutes comes too late.
const wireMost = 24

// TestSlowLink: everything arrives once, though a batch of the configured size would take longer than a connection lives or a request may take. Short:
// ten times as fast, long (WEIR_CRASH=long): twice.
func TestSlowLink(t *testing.T) {
	if testing.Short() {
		t.Skip("real servers; not in -short")
	}
	faster, n := 10, uint64(1500)
	if os.Getenv("WEIR_CRASH") == "long" {
		faster, n = 2, 4000
	}
	link := rig.Link{BytesPerSecond: 64_000 / 8, RoundTrip: 2 * time.Second, ResetsPerSecond: 0.05, Faster: faster}
	for _, e := range ends.Start(t) {
		if e.Addr == "" {
			continue
		}
		t.Run(e.Name, func(t *testing.T) {
			t.Parallel() // all mostly wait
			overSlowLink(t, e, link, n)
		})
	}
}

func overSlowLink(t *testing.T, e ends.End, link rig.Link, n uint64) {
	const sink = "slow"
	line, err := rig.NewProxy(e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer line.Close()
	line.Slow(link)
	q, payload := uplinktest.NewQueue(1, 0), 0
	for i := range n {
		row := ends.Row(i + 1)
		payload += len(row)
		q.Add(string(row))
	}
	far, err := e.Connect(line.Addr(), sink)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	faster := time.Duration(link.Faster)
	c := uplink.Default()
	c.MaxResults, c.MaxBytes = 10_000, 4<<20
	c.Timeout, c.Backoff.Min, c.Backoff.Max = time.Minute/faster, c.Backoff.Min/faster, c.Backoff.Max/faster
	s, err := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: ends.Stream(sink), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: far,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return fmt.Errorf("a row was refused") }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	start := time.Now()
	wg.Go(func() { _ = s.Run(ctx) })
	for deadline := start.Add(patience); q.Confirmed() < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Errorf("confirmed up to %d of %d; last error: %s", q.Confirmed(), n, s.Metrics().LastError())
			break
		}
	}
	took := time.Since(start) * faster
	cancel()
	wg.Wait()
	up, down := line.Passed()
	m := s.Metrics()
	t.Logf("%d results (%d bytes) in %s of the link's time: %.1f results/s, %.0f %% of the bandwidth; %d bytes up, %d down; %d batches, %d sent again, %d opened", n, payload,
		took.Round(time.Second), float64(n)/took.Seconds(), 100*float64(payload)/(float64(link.BytesPerSecond)*took.Seconds()), up, down, m.Batches.Load(), m.Retried.Load(), m.Opened.Load())
	if up > int64(wireMost*payload) {
		t.Errorf("%d bytes up for %d bytes of results", up, payload)
	}
	held, err := e.Held(sink)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range held {
		if r.Seq != uint64(i+1) {
			t.Fatalf("sequence %d where %d comes next", r.Seq, i+1)
		}
	}
	if uint64(len(held)) != n {
		t.Errorf("%d records, want %d", len(held), n)
	}
}
