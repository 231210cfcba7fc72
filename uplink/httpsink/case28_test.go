package httpsink_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// scripted answers plain requests as field case 28 scripts them, and keeps what it accepted.
type scripted struct {
	mu     sync.Mutex
	answer func(n int, rows []string) (status int, body string)
	n      int
	keys   []string
	taken  []string
	seen   []string // row counts per request, for the failure text
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	rows := strings.Split(strings.TrimSuffix(string(body), "\n"), "\n")
	s.keys = append(s.keys, r.Header.Get("Idempotency-Key"))
	s.seen = append(s.seen, fmt.Sprint(len(rows)))
	status, text := s.answer(s.n, rows)
	s.n++
	if status < 300 {
		s.taken = append(s.taken, rows...)
	}
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "0")
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

var rows28 = []string{`{"seq":0,"v":1.5}`, `{"seq":1,"v":1.5}`, `{"seq":2,"v":"text"}`, `{"seq":3,"v":1.5}`, `{"seq":4,"v":1.5}`}

// run28 sends the five records of case 28 to a plain endpoint and gives the dead letters.
func run28(t *testing.T, s *scripted) (dead []string, q *uplinktest.Queue) {
	t.Helper()
	srv := httptest.NewServer(s)
	defer srv.Close()
	q = uplinktest.NewQueue(1, 0)
	q.Add(rows28...)
	dead = runSender(t, q, plain(t, srv.URL), 5)
	return dead, q
}

func plain(t *testing.T, url string) *httpsink.Sink {
	t.Helper()
	c := httpsink.Default()
	c.URL, c.Protocol = url, httpsink.ProtocolPlain
	e, err := httpsink.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func runSender(t *testing.T, q *uplinktest.Queue, e uplink.Endpoint, upTo uint64) (dead []string) {
	t.Helper()
	c := uplink.Default()
	c.Backoff = uplink.Backoff{Min: time.Microsecond, Max: time.Millisecond}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	snd, err := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: uplinktest.Stream(), Generation: 1,
		Incarnation: uplink.Incarnation{Major: 1}, Queue: q, Endpoint: e,
		DeadLetter: func(_ context.Context, d *uplink.DeadLetter) error {
			dead = append(dead, string(d.Result.Payload))
			return nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for q.Confirmed() < upTo && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		cancel()
	})
	err = snd.Run(ctx)
	wg.Wait()
	if q.Confirmed() < upTo {
		t.Fatalf("sender ended at %d of %d: %v", q.Confirmed(), upTo, err)
	}
	return dead
}

func (s *scripted) check(t *testing.T, dead []string) {
	t.Helper()
	want := strings.Join([]string{rows28[0], rows28[1], rows28[3], rows28[4]}, "\n")
	if got := strings.Join(s.taken, "\n"); got != want {
		t.Errorf("delivered (requests of %v rows):\n%s\nwant\n%s", s.seen, got, want)
	}
	if len(dead) != 1 || dead[0] != rows28[2] {
		t.Errorf("dead letters %q, want the record with seq 2 once", dead)
	}
}

func TestCase28_422NamingTheRecord(t *testing.T) {
	s := &scripted{answer: func(n int, _ []string) (int, string) {
		if n == 0 {
			return 422, `{"rejected":[{"index":2,"reason":"v is no number"}]}`
		}
		return 204, ""
	}}
	dead, _ := run28(t, s)
	s.check(t, dead)
	if s.n != 2 {
		t.Errorf("%d requests, want 2", s.n)
	}
	if s.keys[0] == s.keys[1] {
		t.Errorf("the rest without the bad record has the key %q of the refused request", s.keys[0])
	}
}

func TestCase28_422WithoutName(t *testing.T) {
	s := &scripted{answer: func(_ int, rows []string) (int, string) {
		for _, r := range rows {
			if strings.Contains(r, "text") {
				return 422, "unprocessable"
			}
		}
		return 204, ""
	}}
	dead, _ := run28(t, s)
	s.check(t, dead)
	if s.n > 8 {
		t.Errorf("%d requests to find one bad record among five", s.n)
	}
}

func TestCase28_503SameKey(t *testing.T) {
	s := &scripted{answer: func(n int, _ []string) (int, string) {
		return []int{503, 503, 204}[min(n, 2)], ""
	}}
	dead, _ := run28(t, s)
	if len(dead) != 0 {
		t.Errorf("dead letters %q", dead)
	}
	if got := strings.Join(s.taken, "\n"); got != strings.Join(rows28, "\n") {
		t.Errorf("delivered %s", got)
	}
	if len(s.keys) != 3 || s.keys[0] != s.keys[1] || s.keys[1] != s.keys[2] || s.keys[0] == "" {
		t.Errorf("idempotency keys %q, want one key three times", s.keys)
	}
}

// TestPlainRetryAfterCrashIsTheSameBatch: more results came in meanwhile, yet the batch that was sent before the crash comes again with
// its bounds and its key.
func TestPlainRetryAfterCrashIsTheSameBatch(t *testing.T) {
	var mu sync.Mutex
	var keys, bodies []string
	up := false
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		b, _ := io.ReadAll(r.Body)
		keys, bodies = append(keys, r.Header.Get("Idempotency-Key")), append(bodies, string(b))
		if !up {
			w.WriteHeader(500)
		}
	}))
	defer srv.Close()
	q := uplinktest.NewQueue(1, 0)
	q.Add(rows28[:3]...)
	c := uplink.Default()
	c.Backoff = uplink.Backoff{Min: time.Hour, Max: time.Hour}
	ctx, cancel := context.WithCancel(t.Context())
	snd, err := uplink.NewSender(uplink.SenderOptions{Config: c, Stream: uplinktest.Stream(), Generation: 1, Queue: q, Endpoint: plain(t, srv.URL),
		DeadLetter: func(context.Context, *uplink.DeadLetter) error { return errors.New("none") }})
	if err != nil {
		t.Fatal(err)
	}
	var watch sync.WaitGroup
	watch.Go(func() {
		for asked := false; !asked && ctx.Err() == nil; time.Sleep(time.Millisecond) {
			mu.Lock()
			asked = len(keys) > 0
			mu.Unlock()
		}
		cancel()
	})
	err = snd.Run(ctx)
	cancel()
	if watch.Wait(); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	q.Add(rows28[3:]...)
	mu.Lock()
	up = true
	mu.Unlock()
	runSender(t, q, plain(t, srv.URL), 5)
	if keys[0] != keys[1] || bodies[0] != bodies[1] {
		t.Errorf("keys %q, bodies %q: the retry after the crash is another request", keys, bodies)
	}
	if len(keys) != 3 {
		t.Errorf("%d requests, want 3", len(keys))
	}
}

// TestCase16_RecordOverTheSinksLimit: 128 KiB upstream; one larger record is dead-lettered alone and the next goes on.
func TestCase16_RecordOverTheSinksLimit(t *testing.T) {
	s := &scripted{answer: func(int, []string) (int, string) { return 204, "" }}
	srv := httptest.NewServer(s)
	defer srv.Close()
	pad := func(n int) string { return `{"p":"` + strings.Repeat("x", n-8) + `"}` }
	q := uplinktest.NewQueue(1, 0)
	q.Add(pad(131072), pad(131073), pad(262144), `{"seq":"after"}`)
	c := httpsink.Default()
	c.URL, c.Protocol, c.MaxRecordBytes = srv.URL, httpsink.ProtocolPlain, 128<<10
	e, err := httpsink.New(c)
	if err != nil {
		t.Fatal(err)
	}
	dead := runSender(t, q, e, 4)
	if len(dead) != 2 || len(dead[0]) != 131073 || len(dead[1]) != 262144 {
		t.Errorf("%d dead letters", len(dead))
	}
	if len(s.taken) != 2 || s.taken[0] != pad(131072) || s.taken[1] != `{"seq":"after"}` {
		t.Errorf("%d records delivered", len(s.taken))
	}
}

// TestCase16_413IsSplit: the endpoint says itself that a request is too large.
func TestCase16_413IsSplit(t *testing.T) {
	s := &scripted{answer: func(_ int, rows []string) (int, string) {
		if len(strings.Join(rows, "\n")) > 40 {
			return 413, ""
		}
		return 204, ""
	}}
	srv := httptest.NewServer(s)
	defer srv.Close()
	q := uplinktest.NewQueue(1, 0)
	q.Add(`{"a":1}`, `{"p":"`+strings.Repeat("x", 50)+`"}`, `{"a":3}`, `{"a":4}`)
	dead := runSender(t, q, plain(t, srv.URL), 4)
	if len(dead) != 1 || strings.Join(s.taken, "") != `{"a":1}{"a":3}{"a":4}` {
		t.Errorf("dead %q, taken %q", dead, s.taken)
	}
}
