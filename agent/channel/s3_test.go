//go:build !nos3

package channel

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
)

// TestOverS3: a command and its result, looks without bodies, and a store that asks for patience, which gets it: the looks behind a refusal wait, and no request is repeated by itself.
func TestOverS3(t *testing.T) {
	far := rig.NeedS3(t, t.TempDir(), "plant")
	var mu sync.Mutex
	var busy bool
	answers := map[int]int{} // GETs, by status
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: far.Addr})
	behind.ModifyResponse = func(r *http.Response) error {
		mu.Lock()
		defer mu.Unlock()
		if r.Request.Method == http.MethodGet {
			answers[r.StatusCode]++
		}
		return nil
	}
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		refuse := busy
		if refuse {
			answers[http.StatusServiceUnavailable]++
		}
		mu.Unlock()
		if refuse {
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	count := func(status int) int { mu.Lock(); defer mu.Unlock(); return answers[status] }
	b, err := bucket.OpenS3(&bucket.S3{Endpoint: front.URL, Bucket: far.Bucket, Prefix: "site", CredentialsFile: far.CredentialsFile, DialTimeout: rig.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	w := newWorld(t)
	w.over, w.poll = b, 50*time.Millisecond
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(rig.Patience); !ok(); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, answers %v", what, w.ch.Status(), answers)
			}
		}
	}
	w.commands(1, command(1, document.DoStop))
	w.start()
	await("the result", func() bool { return w.result(1) != nil })
	if r := w.result(1); r.Result != document.ResultDone {
		t.Errorf("%+v", r)
	}
	bodies, unchanged, polls := 0, 0, uint64(0)
	await("looks that are over", func() bool {
		polls = w.ch.Status().Polls
		bodies, unchanged = count(http.StatusOK), count(http.StatusNotModified)
		return polls > 3
	})
	await("more looks", func() bool { return w.ch.Status().Polls > polls+3 })
	if is := count(http.StatusOK); is != bodies || count(http.StatusNotModified) <= unchanged {
		t.Errorf("looks at what has not changed got %d bodies; unchanged %d, then %d", is-bodies, unchanged, count(http.StatusNotModified))
	}
	w.stop()

	mu.Lock()
	busy = true
	mu.Unlock()
	w.start()
	await("the refusal", func() bool { return w.ch.Status().Failures > 0 })
	w.stop()
	if n, s := uint64(count(http.StatusServiceUnavailable)), w.ch.Status(); n < 4*s.Failures || n > 5*s.Failures+5 {
		t.Errorf("%d looks failed, by %d requests: want four for each, and a report at most", s.Failures, n)
	}
	mu.Lock()
	busy = false
	mu.Unlock()
	w.put(depot.DeviceCommands(gatewayName), sealed(t, signed.TypeCommands, encoded(t, commandsOf(2, command(1, document.DoStop), command(2, document.DoStart))), "deploy"))
	w.start()
	await("the result of what came meanwhile", func() bool { return w.result(2) != nil })
	w.stop()
	if did := w.acts.did(); len(did) != 2 {
		t.Errorf("done: %q", did)
	}
}
