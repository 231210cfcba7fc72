package receiver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/uplinktest"
	"github.com/weirstream/weir/uplink/wire"
)

// far is a receiver behind a real HTTP server, as uplinktest wants it.
type far struct {
	path        string
	compression string
	options     receiver.Options
	r           *receiver.Receiver
	server      *httptest.Server
	line        *rig.Proxy // the way to it
}

// Line is the way to the receiver.
func (f *far) Line() uplinktest.Line { return f.line }

func newFar(t testing.TB, compression string) *far {
	f := &far{path: filepath.Join(t.TempDir(), "receiver.db"), compression: compression}
	f.options = receiver.Options{Path: f.path, Config: receiver.Default()}
	f.start(t)
	var err error
	if f.line, err = rig.NewProxy(f.server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.line.Close()
		f.server.Close()
		if err := f.r.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *far) start(t testing.TB) {
	var err error
	if f.r, err = receiver.Open(f.options); err != nil {
		t.Fatal(err)
	}
	f.serve(f.r)
}

// serve makes a server the line's far end.
func (f *far) serve(h http.Handler) {
	f.server = httptest.NewServer(h)
	if f.line != nil {
		f.line.Reset()
		f.line.SetTarget(f.server.Listener.Addr().String())
	}
}

func (f *far) Restart(t testing.TB) {
	f.server.Close()
	if err := f.r.Close(); err != nil {
		t.Fatal(err)
	}
	f.start(t)
}

func (f *far) Connect(t testing.TB, board string) uplink.Endpoint {
	c := httpsink.Default()
	c.URL, c.Board, c.Compression = "http://"+f.line.Addr(), board, f.compression
	s, err := httpsink.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (f *far) Held(t testing.TB, s uplink.Stream) (held []uplinktest.Held) {
	err := f.r.Records(s, func(generation uint64, l wire.Line) error {
		h := uplinktest.Held{Generation: generation, Seq: l.Seq, Last: l.Last, Gap: l.Gap, Payload: string(l.Data)}
		if l.Gap {
			h.Payload = l.Reason
		}
		held = append(held, h)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return held
}

func TestConformance(t *testing.T) {
	for _, c := range []string{"none", "gzip", "zstd"} {
		t.Run(c, func(t *testing.T) {
			uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return newFar(t, c) }, uplinktest.Options{})
		})
	}
}

// TestRule23_OpenIsOneTransaction: incarnation and sequence of the row change together and survive a restart.
func TestRule23_OpenIsOneTransaction(t *testing.T) {
	f := newFar(t, "none")
	e := f.Connect(t, "a")
	one, two := uplink.Incarnation{Major: 1}, uplink.Incarnation{Major: 1, Minor: 7}
	if _, err := e.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), one, 1, 1, 5)); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Open(t.Context(), uplinktest.Stream(), two, 1); err != nil {
		t.Fatal(err)
	}
	f.Restart(t)
	p, found, err := f.r.Progress(uplinktest.Stream())
	if err != nil || !found || p.Seq != 5 || p.Incarnation != two {
		t.Fatalf("progress after the restart: %+v %v %v", p, found, err)
	}
}

// TestApplyInTheSameTransaction: a user's function that fails or rejects leaves neither its writes nor progress behind.
func TestApplyInTheSameTransaction(t *testing.T) {
	f := newFar(t, "none")
	f.server.Close()
	if err := f.r.Close(); err != nil {
		t.Fatal(err)
	}
	bucket := []byte("mine")
	fail := true
	f.options.Discard = true
	f.options.Apply = func(tx *bolt.Tx, d *receiver.Delivery) (bad []uplink.Rejected, err error) {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return nil, err
		}
		for _, l := range d.Lines {
			if err := b.Put(fmt.Appendf(nil, "%020d", l.Seq), l.Data); err != nil {
				return nil, err
			}
			if l.Seq == 3 && !l.Gap {
				bad = append(bad, uplink.Rejected{Seq: 3, Reason: "three is bad"})
			}
		}
		if fail {
			return nil, errors.New("database is away")
		}
		return bad, nil
	}
	f.start(t)
	e := f.Connect(t, "a")
	inc := uplink.Incarnation{Major: 1}
	if _, err := e.Open(t.Context(), uplinktest.Stream(), inc, 1); err != nil {
		t.Fatal(err)
	}
	b := uplinktest.MakeBatch(uplinktest.Stream(), inc, 1, 1, 4)
	var retry *uplink.RetryAfter
	if _, err := e.Send(t.Context(), b); !errors.As(err, &retry) {
		t.Fatalf("apply fails: %v, want a temporary refusal", err)
	}
	fail = false
	ans, err := e.Send(t.Context(), b)
	if err != nil || len(ans.Rejected) != 1 || ans.Rejected[0].Seq != 3 {
		t.Fatalf("apply rejects: %+v %v", ans, err)
	}
	if p, _, _ := f.r.Progress(uplinktest.Stream()); p.Seq != 0 {
		t.Fatalf("progress is %d after a rejected batch", p.Seq)
	}
	if n := len(f.Held(t, uplinktest.Stream())); n != 0 {
		t.Fatalf("%d records kept although Discard is set", n)
	}
}

// TestGroupCommitIsolatesRejections: one bad batch among many in a transaction harms no other.
func TestGroupCommitIsolatesRejections(t *testing.T) {
	f := newFar(t, "none")
	f.server.Close()
	if err := f.r.Close(); err != nil {
		t.Fatal(err)
	}
	f.options.Apply = func(_ *bolt.Tx, d *receiver.Delivery) ([]uplink.Rejected, error) {
		if d.Stream.Sink == "s3" {
			return []uplink.Rejected{{Seq: d.Lines[0].Seq, Reason: "no"}}, nil
		}
		return nil, nil
	}
	f.start(t)
	var wg sync.WaitGroup
	for i := range 8 {
		e := f.Connect(t, "a")
		wg.Go(func() {
			s := uplink.Stream{Gateway: "g", Pipeline: "p", Sink: fmt.Sprint("s", i)}
			inc := uplink.Incarnation{Major: 1}
			if _, err := e.Open(t.Context(), s, inc, 1); err != nil {
				t.Error(err)
			}
			for n := range uint64(20) {
				ans, err := e.Send(t.Context(), uplinktest.MakeBatch(s, inc, 1, n*3+1, n*3+3))
				if i == 3 {
					if err != nil || len(ans.Rejected) != 1 {
						t.Errorf("s3: %+v %v", ans, err)
					}
					return
				}
				if err != nil || ans.Durable != n*3+3 {
					t.Errorf("s%d: %+v %v", i, ans, err)
				}
			}
		})
	}
	wg.Wait()
	st := f.r.Stats()
	if st.Records != 7*60 {
		t.Errorf("%d records, want %d", st.Records, 7*60)
	}
}

// TestCase27_RepeatsAndReorderingTakenOnce: what a link makes of the deliveries of case 27 (repeats without a mark, late
// copies) reaches the store once each.
func TestCase27_RepeatsAndReorderingTakenOnce(t *testing.T) {
	f := newFar(t, "none")
	e := f.Connect(t, "a")
	inc := uplink.Incarnation{Major: 1}
	if _, err := e.Open(t.Context(), uplinktest.Stream(), inc, 1); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]uint64{{1, 3}, {1, 3}, {2, 2}, {4, 4}, {1, 4}, {6, 8}, {5, 5}, {4, 6}, {5, 6}, {7, 8}, {6, 8}, {1, 8}} {
		ans, err := e.Send(t.Context(), uplinktest.MakeBatch(uplinktest.Stream(), inc, 1, r[0], r[1]))
		if r == [2]uint64{6, 8} && errors.Is(err, uplink.ErrHole) {
			continue
		}
		if err != nil {
			t.Fatalf("send %v: %+v %v", r, ans, err)
		}
	}
	var seqs []uint64
	for _, h := range f.Held(t, uplinktest.Stream()) {
		seqs = append(seqs, h.Seq)
	}
	if fmt.Sprint(seqs) != "[1 2 3 4 5 6 7 8]" {
		t.Fatalf("held %v", seqs)
	}
}

func TestTokenAndExport(t *testing.T) {
	c := receiver.Default()
	c.Token, c.Export = "s3cret", true
	r, err := receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "r.db"), Config: c})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	get := func(token string) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodGet, "/?stream=g/p/s", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w
	}
	if w := get("wrong"); w.Code != http.StatusUnauthorized {
		t.Fatalf("wrong token: %d", w.Code)
	}
	send := func(verb, body string, first, last uint64) *httptest.ResponseRecorder {
		req := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		wire.SetHeaders(req.Header, &wire.Request{Verb: verb, Stream: uplink.Stream{Gateway: "g", Pipeline: "p", Sink: "s"}, Generation: 1,
			Incarnation: uplink.Incarnation{Major: 1}, Previous: first - 1, First: first, Last: last})
		req.Header.Set("Authorization", "Bearer s3cret")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		return w
	}
	if w := send(wire.VerbOpen, "", 1, 1); w.Code != 200 {
		t.Fatalf("open: %d %s", w.Code, w.Body)
	}
	if w := send(wire.VerbSend, "{\"seq\":1,\"data\":{\"a\":1}}\n{\"seq\":2,\"last\":3,\"gap\":\"x\"}\n", 1, 3); w.Code != 200 {
		t.Fatalf("send: %d %s", w.Code, w.Body)
	}
	for _, bad := range []string{"", "{\"seq\":4,\"data\":{}}", "{\"seq\":5,\"data\":{}}\n", "{\"seq\":4,\"data\":}\n", "{\"seq\":04,\"data\":1}\n", "junk\n"} {
		if w := send(wire.VerbSend, bad, 4, 4); w.Code != http.StatusBadRequest {
			t.Errorf("body %q: %d %s, want 400", bad, w.Code, w.Body)
		}
	}
	w := get("s3cret")
	want := "{\"generation\":1,\"seq\":1,\"data\":{\"a\":1}}\n{\"generation\":1,\"seq\":2,\"last\":3,\"gap\":\"x\"}\n"
	if w.Body.String() != want {
		t.Fatalf("export is %s", w.Body)
	}
	for line := range bytes.Lines(w.Body.Bytes()) {
		if !json.Valid(line) {
			t.Errorf("line %s is not JSON", line)
		}
	}
}

func TestCloseRefusesAndWaits(t *testing.T) {
	f := newFar(t, "none")
	e := f.Connect(t, "a")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	inc := uplink.Incarnation{Major: 1}
	if _, err := e.Open(ctx, uplinktest.Stream(), inc, 1); err != nil {
		t.Fatal(err)
	}
	wg.Go(func() {
		for n := uint64(1); ; n++ {
			if _, err := e.Send(ctx, uplinktest.MakeBatch(uplinktest.Stream(), inc, 1, n, n)); err != nil {
				return
			}
		}
	})
	if err := f.r.Close(); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	f.start(t)
	p, _, err := f.r.Progress(uplinktest.Stream())
	if err != nil {
		t.Fatal(err)
	}
	if got := uint64(len(f.Held(t, uplinktest.Stream()))); got != p.Seq {
		t.Fatalf("%d records, progress %d", got, p.Seq)
	}
}
