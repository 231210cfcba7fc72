package uplink_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// lazy takes batches into a buffer that it makes durable when asked, unless it lost it.
type lazy struct {
	uplink.Endpoint
	lose   func(n int) bool // whether the n-th batch is lost
	mute   bool             // Confirm fails instead of telling the old end, until the stream is opened again
	behind time.Duration    // how long what is not lost takes

	batches, opens int
	end            uint64
	waiting        []waiting
	lost           bool
	confirms       int
}

type waiting struct {
	b  *uplink.Batch
	at time.Time
}

func (l *lazy) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	l.opens, l.waiting, l.lost = l.opens+1, nil, false
	p, err := l.Endpoint.Open(ctx, s, inc, generation)
	l.end = p.Seq
	return p, err
}

func (l *lazy) Send(_ context.Context, b *uplink.Batch) (uplink.Answer, error) {
	l.batches++
	if l.lost = l.lose(l.batches); !l.lost {
		l.waiting = append(l.waiting, waiting{b, time.Now().Add(l.behind)})
	}
	return uplink.Answer{}, nil
}

func (l *lazy) Confirm(ctx context.Context) (uint64, error) {
	l.confirms++
	for len(l.waiting) > 0 && !time.Now().Before(l.waiting[0].at) {
		a, err := l.Endpoint.Send(ctx, l.waiting[0].b)
		if err != nil {
			return 0, err
		}
		l.end, l.waiting = a.Durable, l.waiting[1:]
	}
	if l.mute && l.lost {
		return 0, errors.New("no answer")
	}
	return l.end, nil
}

// TestABatchThatIsNeverConfirmedIsSentAgain: an endpoint takes a batch and loses it before it is durable. The stream is opened again and goes on from
// what is confirmed; the status says why. A sender that asks without end is found.
func TestABatchThatIsNeverConfirmedIsSentAgain(t *testing.T) {
	const rows = 40
	for _, c := range []struct {
		name  string
		mute  bool
		plant bool
	}{{"it tells the old end", false, false}, {"it tells nothing", true, false}, {"the sender asks without end", false, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := uplinktest.NewUpstream(nil)
				e := &lazy{Endpoint: u.Connect(), mute: c.mute, behind: 3 * time.Second, lose: func(n int) bool { return n == 1 || n == 3 }}
				q := uplinktest.NewQueue(1, 0)
				want := payloads(rows)
				q.Add(want...)
				config := uplink.Default()
				config.MaxResults = 10
				s, err := uplink.NewSender(uplink.SenderOptions{Config: config, Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e,
					DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
				if err != nil {
					t.Fatal(err)
				}
				if c.plant {
					s.AskForEver()
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- s.Run(ctx) }()
				time.Sleep(config.Timeout + 50*time.Millisecond)
				told := s.Metrics().LastError()
				for q.Confirmed() < rows && ctx.Err() == nil {
					time.Sleep(time.Second)
				}
				synctest.Wait()
				last := s.Metrics().LastError()
				cancel()
				<-ended
				if c.plant {
					if q.Confirmed() == rows {
						t.Fatal("the planted fault was not found")
					}
					return
				}
				if err := uplinktest.Exact(u.Records(), want, nil); err != nil {
					t.Fatal(err)
				}
				if e.opens != 3 || last != "" || s.Metrics().Rejected.Load()+s.Metrics().LostUpstream.Load() != 0 {
					t.Errorf("opened %d times, want 3; in the end the error is %q", e.opens, last)
				}
				if c.mute && told != "no answer" {
					t.Errorf("before it was opened again the status says %q", told)
				}
				if limit := 200; e.confirms > limit {
					t.Errorf("asked %d times, %d at most", e.confirms, limit)
				}
			})
		})
	}
}

// TestABatchThatIsConfirmedLate: an upstream that writes once in five minutes, ten results at a time, is no loss: what comes again is known by its sequence.
func TestABatchThatIsConfirmedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		u := uplinktest.NewUpstream(nil)
		e := &creeping{Endpoint: u.Connect(), since: time.Now()}
		q := uplinktest.NewQueue(1, 0)
		want := payloads(100)
		q.Add(want...)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
		defer cancel()
		s, err := uplink.NewSender(uplink.SenderOptions{Config: uplink.Default(), Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e,
			DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run(ctx) }()
		for q.Confirmed() < 100 && ctx.Err() == nil {
			time.Sleep(time.Second)
		}
		synctest.Wait()
		told := s.Metrics().LastError()
		cancel()
		<-ended
		if q.Confirmed() != 100 || told != "" {
			t.Fatalf("confirmed up to %d, the error is %q", q.Confirmed(), told)
		}
		if err := uplinktest.Exact(u.Records(), want, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// creeping is durable up to ten more each 5 minutes.
type creeping struct {
	uplink.Endpoint
	since time.Time
	taken uint64
}

func (c *creeping) end() uint64 { return min(c.taken, uint64(time.Since(c.since)/(5*time.Minute))*10) }

func (c *creeping) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	p, err := c.Endpoint.Open(ctx, s, inc, generation)
	p.Seq = c.end()
	return p, err
}

func (c *creeping) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if b.Previous > c.end() {
		return uplink.Answer{}, fmt.Errorf("%w: it ends at %d", uplink.ErrHole, c.end())
	}
	a, err := c.Endpoint.Send(ctx, b)
	c.taken = max(c.taken, a.Durable)
	return uplink.Answer{}, err
}

func (c *creeping) Confirm(context.Context) (uint64, error) { return c.end(), nil }

// TestUnconfirmedIsToldOnce: the log has one line for it, however often.
func TestUnconfirmedIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &lazy{Endpoint: uplinktest.NewUpstream(nil).Connect(), lose: func(int) bool { return true }}
		q := uplinktest.NewQueue(1, 0)
		q.Add("r1")
		var log uplinktest.Lines
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		s, err := uplink.NewSender(uplink.SenderOptions{Config: uplink.Default(), Stream: uplinktest.Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e,
			Logger: log.Logger(), DeadLetter: func(context.Context, *uplink.DeadLetter) error { return nil }})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(s.Metrics().LastError(), "does not confirm them") || e.opens < 10 {
			t.Errorf("opened %d times, %d lines, the error is %q\n%s", e.opens, n, s.Metrics().LastError(), log.String())
		}
	})
}
