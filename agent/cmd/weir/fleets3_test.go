//go:build !nocentral && !nos3

package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
)

// slowStore stands before a store, and answers as S3 does above its limit.
type slowStore struct {
	*httptest.Server
	slow  atomic.Int32 // so many requests more that are about name
	name  atomic.Value // string
	asked atomic.Int32 // requests that were answered so
}

func slowDown(t *testing.T, addr string) *slowStore {
	t.Helper()
	s := &slowStore{}
	s.name.Store("")
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: addr}) // keeps Host, which is signed
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.String(), s.name.Load().(string)) && s.slow.Add(-1) >= 0 {
			s.asked.Add(1)
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, "<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>")
			return
		}
		behind.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestFleetInS3: keys in a file, conditional writes of several operators, answers that ask for patience.
func TestFleetInS3(t *testing.T) {
	far := rig.NeedS3(t, t.TempDir(), "plant")
	front := slowDown(t, far.Addr)
	f := newFleet(t, 0)
	b, err := bucket.OpenS3(&bucket.S3{Endpoint: front.URL, Bucket: far.Bucket, Prefix: "site/7", CredentialsFile: far.CredentialsFile, DialTimeout: rig.Patience})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	f.Depot = depot.Depot{Bucket: b}
	f.flags = []string{"--store", "s3://plant/site/7", "--endpoint", front.URL, "--credentials-file", far.CredentialsFile, "--root", f.at("keys/root.1.json")}
	for i := range 40 {
		f.alive(fmt.Sprintf("gw-%03d", i), "stable", "rpi4")
	}
	deploy := f.key("deploy")

	front.name.Store("/chunk/")
	front.slow.Store(2)
	sha := f.release("1.4.0")
	if n := front.asked.Load(); n != 2 {
		t.Errorf("%d pieces were asked to wait, want 2", n)
	}
	f.says(0, "whole", "release", "verify", sha)
	front.name.Store("")
	front.slow.Store(1)
	f.says(1, "SlowDown", "fleet", "status")
	front.slow.Store(0)

	f.says(0, "published: roll-out r1, serial 1", append([]string{"fleet", "rollout", "1.4.0", "--id", "r1", "--waves", "20%,100%", "--min-reports", "3", "--yes"}, deploy...)...)
	for _, g := range f.in("r1", 0, 1000) {
		f.fares("r1", sha, g, rollout.Committed)
	}
	front.name.Store("rollout.json")
	front.slow.Store(1) // a look of the watch: the next one goes on
	if code, errs := f.watch(&firstWrite{}, append([]string{"fleet", "reconcile", "--watch", "20ms"}, deploy...)...); code != 0 || !strings.Contains(errs, "SlowDown") || !strings.Contains(errs, "wave 2") {
		t.Errorf("exit code %d: %s", code, errs)
	}

	const operators = 4
	var published atomic.Int32
	var all sync.WaitGroup
	for i := range operators {
		all.Go(func() {
			switch code, out, said := f.run(append(append([]string{"fleet", "command", "restart", "gw-000", "--id", fmt.Sprint("op", i), "--yes"}, deploy...), f.flags...)...); code {
			case 0:
				published.Add(1)
			case 1, 2: // another was first, and it is told
			default:
				t.Errorf("exit code %d: %s %s", code, out, said)
			}
		})
	}
	all.Wait()
	_, list, err := f.CurrentCommands(t.Context(), f.trust(), "device/gw-000")
	if err != nil || published.Load() == 0 || len(list.List) != int(published.Load()) || list.Serial != uint64(published.Load()) {
		t.Errorf("%d operators have published, and the list is %+v, %v", published.Load(), list, err)
	}

	wrong := f.at("wrong.credentials")
	if err := rig.WriteS3Keys(wrong, "another-secret"); err != nil {
		t.Fatal(err)
	}
	f.flags[5] = wrong
	f.says(1, "credentials_file", "fleet", "status")
	f.flags[5] = f.at("none")
	f.says(1, f.at("none")+" cannot be read", "fleet", "status")
}
