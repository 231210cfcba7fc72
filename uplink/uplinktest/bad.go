package uplinktest

import (
	"cmp"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/uplink"
)

// Bad is an upstream that cannot be used, and what has to be said of it: what happened, to what, what to do.
type Bad struct {
	Name   string
	Dial   func(t *testing.T) uplink.Endpoint
	Want   []string           // in the error that the status shows, and in the log
	Secret string             // in neither; "": none
	Heal   func(t *testing.T) // makes it usable; nil: it stays bad

	Rows    uint64        // that are to be delivered; 0: 5
	Timeout time.Duration // of a request, for a server that gives no answer; 0: 20 s
	Tries   uint64        // after which the log is looked at; 0: 25
}

// BadWait bounds every wait: only a failure takes so long.
const BadWait = patience

const (
	badTries   = 25 // after which the log is looked at
	badLines   = 3  // most lines about it: kinds of failure, not tries
	badRows    = 5
	badTimeout = time.Minute
)

// Run drives a sender into the bad upstream. However often it is tried, the log has a line for each kind of failure, the status the latest; no
// result becomes a dead letter, and once it is mended all arrive.
func (b Bad) Run(t *testing.T) {
	b.Rows, b.Tries, b.Timeout = cmp.Or(b.Rows, badRows), cmp.Or(b.Tries, badTries), cmp.Or(b.Timeout, badTimeout)
	q := NewQueue(1, 0)
	for range b.Rows {
		q.Add(`{"n":1,"text":"row"}`)
	}
	log := &Lines{}
	c := uplink.Default()
	c.Timeout, c.Backoff = b.Timeout, uplink.Backoff{Min: time.Millisecond, Max: 2 * time.Millisecond}
	e := b.Dial(t)
	defer e.Close()
	s, err := uplink.NewSender(uplink.SenderOptions{
		Config: c, Stream: Stream(), Generation: 1, Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e, Logger: log.Logger(),
		DeadLetter: func(_ context.Context, d *uplink.DeadLetter) error {
			t.Errorf("result %d is a dead letter: %s", d.Result.Seq, d.Reason)
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	defer func() { cancel(); <-done }()
	m := s.Metrics()
	until := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
			select {
			case err := <-done:
				done <- err
				t.Fatalf("the sender gave up: %v", err)
			default:
			}
			if time.Now().After(deadline) {
				t.Fatalf("in vain waited until %s; the last error is %q", what, m.LastError())
			}
		}
	}
	until("it was tried often", func() bool { return m.Opened.Load()+m.Retried.Load() >= b.Tries })
	text, told := m.LastError(), log.String()
	t.Log(text)
	if n := strings.Count(told, "\n"); n < 1 || n > badLines {
		t.Errorf("%d lines for %d tries, allowed are 1 to %d:\n%s", n, b.Tries, badLines, told)
	}
	for _, want := range b.Want {
		if !strings.Contains(text, want) || !strings.Contains(strings.ReplaceAll(told, `\"`, `"`), want) {
			t.Errorf("%q lacks %q; the log has\n%s", text, want, told)
		}
	}
	if b.Secret != "" && strings.Contains(text+told, b.Secret) {
		t.Errorf("a secret is told: %s\n%s", text, told)
	}
	if b.Heal != nil {
		b.Heal(t)
		until("all is delivered", func() bool { return m.Confirmed.Load()+m.KnownUpstream.Load() == b.Rows && m.LastError() == "" })
	}
}

// Must ends the test on an error of what it stands on.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
