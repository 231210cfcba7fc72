package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

// line puts a breakable proxy before the server.
func (f *far) line(t testing.TB) *rig.Proxy {
	t.Helper()
	p, err := rig.NewProxy(server.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	f.config.DSNFile = writeDSN(t, server.DSN(p.Addr()))
	return p
}

func jsonRow(n int) string { return fmt.Sprintf(`{"n":%d,"text":"row %d"}`, n, n) }

func jsonRows(first, last int) (all []string) {
	for n := first; n <= last; n++ {
		all = append(all, jsonRow(n))
	}
	return all
}

// sender runs a sender of a queue until the test ends or stop is called; batches are small, waits short.
func sender(t testing.TB, q *uplinktest.Queue, e uplink.Endpoint, inc uplink.Incarnation, timeout time.Duration, size ...int) (s *uplink.Sender, stop func() error) {
	t.Helper()
	return senderTo(t, q, e, inc, timeout, nil, size...)
}

func senderTo(t testing.TB, q *uplinktest.Queue, e uplink.Endpoint, inc uplink.Incarnation, timeout time.Duration, log *slog.Logger, size ...int) (s *uplink.Sender, stop func() error) {
	t.Helper()
	c := uplink.Default()
	c.MaxResults, c.Timeout, c.Backoff = 7, timeout, uplink.Backoff{Min: time.Millisecond, Max: 20 * time.Millisecond}
	if len(size) > 0 {
		c.MaxResults = size[0]
	}
	s, err := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: uplinktest.Stream(), Generation: 1, Incarnation: inc, Queue: q, Endpoint: e, Logger: log,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var ended error
	var wg sync.WaitGroup
	wg.Go(func() { ended = s.Run(ctx) })
	var once sync.Once
	stop = func() error {
		once.Do(func() {
			cancel()
			wg.Wait()
			_ = e.Close()
		})
		return ended
	}
	t.Cleanup(func() { _ = stop() })
	return s, stop
}

// confirmed waits until everything up to seq is.
func confirmed(t testing.TB, q *uplinktest.Queue, s *uplink.Sender, seq uint64) {
	t.Helper()
	for deadline := time.Now().Add(rig.Patience); q.Confirmed() < seq; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("confirmed up to %d of %d; last error: %s", q.Confirmed(), seq, s.Metrics().LastError())
		}
	}
}

// exact asks the table with SQL.
func (f *far) exact(t testing.TB, n int) {
	t.Helper()
	if err := uplinktest.Exact(f.Held(t, uplinktest.Stream()), jsonRows(1, n), nil); err != nil {
		t.Error(err)
	}
	got := sql(t, fmt.Sprintf("SELECT count(*), count(DISTINCT seq), count(DISTINCT n), min(n), max(n) FROM %s.rows", f.config.Schema))[0]
	if want := fmt.Sprint(n); got[0] != want || got[1] != want || got[2] != want || got[4] != want {
		t.Errorf("count, distinct sequences, distinct n, least, most: %v, want %d of each", got, n)
	}
}

// TestLineAndServerFaults: the line is cut within requests and before answers, at random places, and the server is killed.
func TestLineAndServerFaults(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	f := newFar(t)
	p := f.line(t)
	q := uplinktest.NewQueue(1, 0)
	s, stop := sender(t, q, f.sink(t, "a"), one, time.Minute)
	const rounds, each = 30, 40
	for round := range rounds {
		switch round % 5 {
		case 0:
			p.CutRequest(rnd.IntN(3000))
		case 1:
			p.CutAnswer(0) // committed, not answered
		case 2:
			p.CutAnswer(rnd.IntN(200))
		case 3:
			p.Reset()
		}
		q.Add(jsonRows(round*each+1, (round+1)*each)...)
		if round%10 == 4 {
			server.Kill()
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
		}
		confirmed(t, q, s, uint64(round+1)*each)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	f.exact(t, rounds*each)
	t.Logf("%d resets, %d opened, %d known upstream when opened", p.Resets(), s.Metrics().Opened.Load(), s.Metrics().KnownUpstream.Load())
}

// TestAnswersLostForLong: requests arrive and no answer comes back for as many timeouts as ten minutes have with the default of 30 s.
func TestAnswersLostForLong(t *testing.T) {
	f := newFar(t)
	p := f.line(t)
	q := uplinktest.NewQueue(1, 0)
	hurry := &uplinktest.Impatience{}
	s, _ := sender(t, q, hurry.Of(f.sink(t, "a")), one, time.Minute)
	q.Add(jsonRows(1, 20)...)
	confirmed(t, q, s, 20)
	p.Mute(true)
	q.Add(jsonRows(21, 60)...)
	for len(f.Held(t, uplinktest.Stream())) == 20 { // the batch is there before it times out, however slow the machine is
		time.Sleep(5 * time.Millisecond)
	}
	hurry.Set(250*time.Millisecond, uplinktest.Always)
	const timeouts = 20 // 10 min / 30 s
	for s.Metrics().Opened.Load()+s.Metrics().Retried.Load() < timeouts {
		time.Sleep(5 * time.Millisecond)
	}
	if c := q.Confirmed(); c != 20 {
		t.Fatalf("confirmed up to %d without an answer", c)
	}
	p.Mute(false)
	hurry.Set(0, 0)
	confirmed(t, q, s, 60)
	f.exact(t, 60)
	if s.Metrics().KnownUpstream.Load() == 0 {
		t.Error("the batch whose answer was lost was not found upstream")
	}
}

// TestSlowLinkWithResets: 64 kbit/s, 2 s there and back and 5 % resets, twenty times as fast. The rate holds: what goes over the line
// is the rows and little else, though a reset costs a connection and a batch that was under way.
func TestSlowLinkWithResets(t *testing.T) {
	f := newFar(t)
	p := f.line(t)
	const faster = 20
	p.Slow(rig.Link{BytesPerSecond: 64_000 / 8, RoundTrip: 2 * time.Second, ResetsPerSecond: 0.05, Faster: faster})
	q := uplinktest.NewQueue(1, 0)
	const n = 6000
	q.Add(jsonRows(1, n)...)
	s, _ := sender(t, q, f.sink(t, "a"), one, time.Minute, 500)
	start := time.Now()
	confirmed(t, q, s, n)
	took := time.Since(start)
	f.exact(t, n)
	up, _ := p.Passed()
	t.Logf("%d results in %s: %.1f bytes up per result, %d opened, %d known upstream when opened; the line's bandwidth was used to %.0f %%", n, took.Round(time.Millisecond),
		float64(up)/n, s.Metrics().Opened.Load(), s.Metrics().KnownUpstream.Load(), 100*float64(up)/(64_000/8*faster*took.Seconds()))
	if perRow := float64(len(jsonRow(n))); float64(up)/n > 6*perRow {
		t.Errorf("%.1f bytes up per result of %.0f bytes: resets make it send again and again", float64(up)/n, perRow)
	}
}

// TestTwoIncarnationsAtOnce: two senders of one stream push the same results; the lower one is fenced, no row comes twice.
func TestTwoIncarnationsAtOnce(t *testing.T) {
	f := newFar(t)
	if err := f.twoIncarnations(t); err != nil {
		t.Fatal(err)
	}
	f.exact(t, 400)
}

func (f *far) twoIncarnations(t *testing.T) error {
	t.Helper()
	old, fresh := uplinktest.NewQueue(1, 0), uplinktest.NewQueue(1, 0)
	old.Add(jsonRows(1, 400)...)
	fresh.Add(jsonRows(1, 400)...)
	s1, stop1 := sender(t, old, f.sink(t, "a"), one, time.Minute)
	confirmed(t, old, s1, 50)
	s2, stop2 := sender(t, fresh, f.sink(t, "b"), uplink.Incarnation{Major: 2}, time.Minute)
	confirmed(t, fresh, s2, 400)
	_ = stop2()
	for deadline := time.Now().Add(rig.Patience); !s1.Metrics().Fenced.Load() && old.Confirmed() < 400 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if err := stop1(); !errors.Is(err, uplink.ErrFenced) && old.Confirmed() < 400 {
		return fmt.Errorf("the old incarnation ended with %w", err)
	}
	return nil
}

// TestContendedSendWritesNothing: the progress row is moved by an equal sender before each try. The tries end, with an error that is temporary and says so; nothing of
// the batch was written, and it goes through when it comes again.
func TestContendedSendWritesNothing(t *testing.T) {
	f := newFar(t)
	rival := f.sink(t, "a")
	defer rival.Close()
	mustOpen(t, rival)
	e := f.sink(t, "a")
	defer e.Close()
	mustOpen(t, e)
	moved := 0
	e.fault.beforeWrite = func() {
		moved++
		if _, err := rival.Send(t.Context(), batch(moved, moved)); err != nil {
			t.Error(err)
		}
	}
	if ans, err := e.Send(t.Context(), batch(1, 20)); !errors.Is(err, uplink.ErrContended) {
		t.Fatalf("%+v, %v; want ErrContended", ans, err)
	}
	f.exact(t, moved)
	e.fault.beforeWrite = nil
	if ans, err := e.Send(t.Context(), batch(1, 20)); err != nil || ans.Durable != 20 {
		t.Fatalf("%+v, %v", ans, err)
	}
	f.exact(t, 20)
}

// insist sends a batch until it is not merely contended: how often equals move the row under each other is chance.
func insist(ctx context.Context, e uplink.Endpoint, b *uplink.Batch) (ans uplink.Answer, err error) {
	for err = uplink.ErrContended; errors.Is(err, uplink.ErrContended) && ctx.Err() == nil; {
		ans, err = e.Send(ctx, b)
	}
	return ans, err
}

// TestEqualsOfOneStreamRace: copies of batches arrive on several connections at once, in any order.
func TestEqualsOfOneStreamRace(t *testing.T) {
	f := newFar(t)
	f.race(t)
	f.exact(t, racedTo)
}

// racedTo is the last sequence that race sends.
const racedTo = 80

// race sends copies of batches on several connections at once, then the rest on one: whatever the others left out is there then.
func (f *far) race(t *testing.T) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	first := f.sink(t, "a")
	defer first.Close()
	mustOpen(t, first)
	var wg sync.WaitGroup
	for i := range uint64(4) {
		e := f.sink(t, "a")
		wg.Go(func() {
			defer e.Close()
			rnd := rand.New(rand.NewPCG(seed, i))
			if _, err := e.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
				t.Error(err)
				return
			}
			for n := range 120 {
				from := max(1, 1+n/2-rnd.IntN(5))
				b := batch(from, from+rnd.IntN(8))
				if ans, err := insist(t.Context(), e, b); err != nil && !errors.Is(err, uplink.ErrHole) || err == nil && ans.Durable < b.Last {
					t.Errorf("send %d..%d: %+v %v", b.First, b.Last, ans, err)
				}
			}
		})
	}
	wg.Wait()
	if ans, err := first.Send(t.Context(), batch(1, racedTo)); err != nil || ans.Durable != racedTo {
		t.Fatalf("the rest: %+v, %v", ans, err)
	}
}

// batch makes first..last of jsonRow.
func batch(first, last int) *uplink.Batch {
	b := &uplink.Batch{Stream: uplinktest.Stream(), Generation: 1, Incarnation: one, Previous: uint64(first) - 1, First: uint64(first), Last: uint64(last)}
	for n := first; n <= last; n++ {
		b.Results = append(b.Results, pipeline.Result{Seq: uint64(n), Last: uint64(n), Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: []byte(jsonRow(n))})
	}
	return b
}

// TestPlantedFaults shows that the checks above can fail.
func TestPlantedFaults(t *testing.T) {
	t.Run("progress row outside of the transaction", func(t *testing.T) {
		f := newFar(t)
		f.fault = faults{apart: true, between: func() error { return errors.New("crash") }}
		e := f.sink(t, "a")
		mustOpen(t, e)
		if _, err := e.Send(t.Context(), batch(1, 5)); err == nil {
			t.Fatal("the crash did not come")
		}
		f.fault = faults{}
		e = f.sink(t, "a")
		defer e.Close()
		mustOpen(t, e)
		if _, err := e.Send(t.Context(), batch(1, 5)); err != nil {
			t.Fatal(err)
		}
		f.mustDiffer(t, 5)
	})
	t.Run("TestRule16_DedupByBatch", func(t *testing.T) {
		f := newFar(t)
		f.fault = faults{noFence: true, byBatch: map[string]bool{}}
		e := f.sink(t, "a")
		defer e.Close()
		mustOpen(t, e)
		for _, b := range []*uplink.Batch{batch(1, 5), batch(1, 5), batch(3, 8)} {
			if _, err := e.Send(t.Context(), b); err != nil {
				t.Fatal(err)
			}
		}
		f.mustDiffer(t, 8)
	})
	t.Run("equals race for rows that are nobody's", func(t *testing.T) {
		f := newFar(t)
		f.fault = faults{noFence: true}
		f.race(t)
		f.mustDiffer(t, racedTo)
	})
	t.Run("TestRule23_FenceIgnored", func(t *testing.T) {
		f := newFar(t)
		f.fault = faults{noFence: true}
		old, fresh := f.sink(t, "a"), f.sink(t, "b")
		defer old.Close()
		defer fresh.Close()
		mustOpen(t, old)
		if _, err := old.Send(t.Context(), batch(1, 5)); err != nil {
			t.Fatal(err)
		}
		if _, err := fresh.Open(t.Context(), uplinktest.Stream(), uplink.Incarnation{Major: 2}, 1); err != nil {
			t.Fatal(err)
		}
		for _, e := range []*Sink{fresh, old} {
			if _, err := e.Send(t.Context(), batch(6, 9)); err != nil {
				t.Fatal(err)
			}
		}
		f.mustDiffer(t, 9)
	})
}

func mustOpen(t *testing.T, e *Sink) {
	t.Helper()
	if _, err := e.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
}

func (f *far) mustDiffer(t *testing.T, n int) {
	t.Helper()
	err := uplinktest.Exact(f.Held(t, uplinktest.Stream()), jsonRows(1, n), nil)
	if err == nil {
		t.Fatal("the planted fault was not found")
	}
	t.Log("found:", err)
}

// loggedSender is a sender whose log can be read when it has stopped.
func loggedSender(t testing.TB, q *uplinktest.Queue, e uplink.Endpoint, log *bytes.Buffer) (*uplink.Sender, func() error) {
	t.Helper()
	return senderTo(t, q, e, one, 5*time.Second, slog.New(slog.NewTextHandler(log, nil)))
}
