package uplink_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// ordered checks that a dead letter is kept before its skip, and the skip before the gap is sent.
type ordered struct {
	*uplinktest.Queue
	mu   sync.Mutex
	dead map[uint64]bool
	bad  []string
}

func (o *ordered) Skip(ctx context.Context, first, last uint64, reason string) error {
	o.mu.Lock()
	if !o.dead[first] {
		o.bad = append(o.bad, fmt.Sprintf("%d skipped before its dead letter was kept", first))
	}
	o.mu.Unlock()
	return o.Queue.Skip(ctx, first, last, reason)
}

// drive runs a sender until everything is confirmed or it ends by itself.
func drive(t *testing.T, q uplink.Queue, confirmed func() uint64, upTo uint64, e uplink.Endpoint, change func(*uplink.SenderOptions)) (*uplink.Sender, error) {
	t.Helper()
	c := uplink.Default()
	c.Backoff = uplink.Backoff{Min: time.Millisecond, Max: 10 * time.Millisecond}
	o := uplink.SenderOptions{Config: c, Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e,
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }}
	if change != nil {
		change(&o)
	}
	s, err := uplink.NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for confirmed() < upTo && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	})
	err = s.Run(ctx)
	cancel()
	return s, err
}

func payloads(n int) (p []string) {
	for i := range n {
		p = append(p, fmt.Sprintf("r%d", i+1))
	}
	return p
}

func TestRejectedRecordsBecomeDeadLettersOneByOne(t *testing.T) {
	for _, unnamed := range []bool{false, true} {
		t.Run(fmt.Sprint("unnamed ", unnamed), func(t *testing.T) {
			u := uplinktest.NewUpstream(nil)
			u.RejectUnnamed = unnamed
			bad := map[string]bool{"r1": true, "r7": true, "r8": true, "r30": true}
			u.Reject = func(p string) string {
				if bad[p] {
					return "bad value"
				}
				return ""
			}
			q := &ordered{Queue: uplinktest.NewQueue(1, 0), dead: map[uint64]bool{}}
			want := payloads(30)
			q.Add(want...)
			fails := 2 // the keeper's disk is full for a while
			s, err := drive(t, q, q.Confirmed, 30, u.Connect(), func(o *uplink.SenderOptions) {
				o.DeadLetter = func(_ context.Context, d *uplink.DeadLetter) error {
					if fails > 0 {
						fails--
						return errors.New("no space left")
					}
					q.mu.Lock()
					q.dead[d.Result.Seq] = true
					q.mu.Unlock()
					return nil
				}
			})
			if !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if err := uplinktest.Exact(u.Records(), want, func(seq uint64) bool { return bad[want[seq-1]] }); err != nil {
				t.Fatal(err)
			}
			if len(q.bad) > 0 || len(q.dead) != 4 || s.Metrics().Rejected.Load() != 4 {
				t.Fatalf("order %v, dead letters %v, counted %d", q.bad, q.dead, s.Metrics().Rejected.Load())
			}
		})
	}
}

func TestFencedSenderStopsAndKeepsItsResults(t *testing.T) {
	u := uplinktest.NewUpstream(nil)
	q := uplinktest.NewQueue(1, 0)
	q.Add(payloads(5)...)
	newer := u.Connect()
	if _, err := newer.Open(t.Context(), uplinktest.Stream(), uplink.Incarnation{Major: 2}, 1); err != nil {
		t.Fatal(err)
	}
	s, err := drive(t, q, q.Confirmed, 5, u.Connect(), nil)
	if !errors.Is(err, uplink.ErrFenced) || !s.Metrics().Fenced.Load() || q.Confirmed() != 0 {
		t.Fatalf("%v, fenced %v, confirmed %d", err, s.Metrics().Fenced.Load(), q.Confirmed())
	}
}

// TestUpstreamThatLostItsDataGetsAGap: the receiver's file was replaced by an empty one.
func TestUpstreamThatLostItsDataGetsAGap(t *testing.T) {
	q := uplinktest.NewQueue(1, 0)
	want := payloads(9)
	q.Add(want[:6]...)
	if _, err := drive(t, q, q.Confirmed, 6, uplinktest.NewUpstream(nil).Connect(), nil); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	q.Add(want[6:]...)
	empty := uplinktest.NewUpstream(nil)
	s, err := drive(t, q, q.Confirmed, 9, empty.Connect(), nil)
	if !errors.Is(err, context.Canceled) || s.Metrics().LostUpstream.Load() != 6 {
		t.Fatalf("%v, lost %d, want 6", err, s.Metrics().LostUpstream.Load())
	}
	if err := uplinktest.Exact(empty.Records(), want, func(seq uint64) bool { return seq <= 6 }); err != nil {
		t.Fatal(err)
	}
}

// slow answers RetryAfter so often.
type slow struct {
	uplink.Endpoint
	busy int
	at   []time.Duration
	t0   time.Time
}

func (s *slow) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	s.at = append(s.at, time.Since(s.t0))
	if s.busy--; s.busy >= 0 {
		return uplink.Answer{}, &uplink.RetryAfter{Wait: time.Minute, Err: errors.New("busy")}
	}
	return s.Endpoint.Send(ctx, b)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := uplinktest.NewUpstream(nil)
		e := &slow{Endpoint: u.Connect(), busy: 3, t0: time.Now()}
		q := uplinktest.NewQueue(1, 0)
		q.Add("r1")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		s, err := uplink.NewSender(uplink.SenderOptions{Config: uplink.Default(), Stream: uplinktest.Stream(), Generation: 1, Queue: q, Endpoint: e,
			DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Run(ctx)
		if len(e.at) != 4 || e.at[1] < time.Minute || e.at[3] < 3*time.Minute || e.at[3] > 4*time.Minute {
			t.Fatalf("sent at %v", e.at)
		}
		if s.Metrics().Retried.Load() != 3 || s.Metrics().LastError() != "" || q.Confirmed() != 1 {
			t.Fatalf("retried %d, last error %q", s.Metrics().Retried.Load(), s.Metrics().LastError())
		}
	})
}

// TestLimiterServesHighFirst: the link is shared; while it is saturated the high stream overtakes.
func TestLimiterServesHighFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := uplink.NewLimiter(1000)
		t0 := time.Now()
		var mu sync.Mutex
		ended := map[string]time.Duration{}
		var wg sync.WaitGroup
		use := func(name string, n int, p uplink.Priority) {
			wg.Go(func() {
				if err := l.Wait(t.Context(), n, p); err != nil {
					t.Error(err)
				}
				mu.Lock()
				ended[name] = time.Since(t0)
				mu.Unlock()
			})
		}
		use("low", 10_000, uplink.PriorityLow)
		synctest.Wait()
		use("high", 1000, uplink.PriorityHigh)
		use("normal", 1000, uplink.PriorityNormal)
		wg.Wait()
		if ended["high"] > 1500*time.Millisecond || ended["normal"] > 2500*time.Millisecond || ended["low"] < 11*time.Second || ended["low"] > 12*time.Second {
			t.Fatalf("ended after %v", ended)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := l.Wait(ctx, 5000, uplink.PriorityHigh); err == nil {
			t.Fatal("a cancelled wait returned nil")
		}
		if err := l.Wait(t.Context(), 1, uplink.PriorityLow); err != nil {
			t.Fatalf("the limiter is stuck behind a cancelled wait: %v", err)
		}
	})
}
