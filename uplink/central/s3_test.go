//go:build !nos3

package central

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
)

// TestServerIsKilled: a real S3 server, killed with -9 and started again while uploads go on, connections reset in the middle, and uploaders that are given up wherever they are and begin
// anew with what is on the device. What was confirmed can be fetched, at the end all of it.
func TestServerIsKilled(t *testing.T) {
	far := rig.NeedS3(t, t.TempDir(), "bucket-1")
	line, err := rig.NewProxy(far.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { line.Close() })
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	open := func() bucket.Bucket {
		b, err := bucket.OpenS3(&bucket.S3{Endpoint: "http://" + line.Addr(), Bucket: far.Bucket, Prefix: "fleet", CredentialsFile: far.CredentialsFile, DialTimeout: rig.Patience})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		return b
	}
	w := newWorld(t, seed)
	w.keys, w.value = 3000, 64
	w.config = func(c *Config) {
		c.Bucket, c.RebaseRatio, c.Sleep, c.Backoff, c.CollectEvery = open(), 2, nil, uplink.Backoff{Min: 10 * time.Millisecond, Max: 100 * time.Millisecond}, 4
	}
	kills := 0
	for range 8 {
		w.start()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.up.Run(ctx) })
		for range 6 {
			w.checkpoint(1500)
			if _, err := w.cut(); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(rnd.IntN(30)) * time.Millisecond)
			if line.Reset(); rnd.IntN(4) == 0 {
				kills++
				far.Kill()
				if err := far.Start(); err != nil {
					t.Fatal(err)
				}
			}
		}
		stop()
		running.Wait()
	}
	w.start()
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { w.up.Run(ctx) })
	defer running.Wait()
	defer stop()
	end := time.Now().Add(3 * time.Minute)
	for w.pipe.Status(time.Now()).Checkpoint != w.id {
		if time.Now().After(end) {
			t.Fatalf("%+v, want checkpoint %d", w.pipe.Status(time.Now()), w.id)
		}
		if _, err := w.cut(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if id, err := w.check(open(), w.id); err != nil || id != w.id {
		t.Fatalf("%d, %v", id, err)
	}
	t.Logf("%d kills, %d resets, %d bases; %+v", kills, line.Resets(), w.rebases, w.pipe.Status(time.Now()))
}

// about3h: a Date has whole seconds.
func about3h(s string) bool {
	return strings.Contains(s, "it is 3h0m") || strings.Contains(s, "it is 2h59m")
}

// TestClockIsWrong: a real server judges signatures by a clock that is hours away from this device's. The uploader says so, with the difference, and goes on by itself once it is right.
func TestClockIsWrong(t *testing.T) {
	far := rig.NeedS3(t, t.TempDir(), "bucket-1")
	target, err := url.Parse("http://" + far.Addr)
	if err != nil {
		t.Fatal(err)
	}
	// The device's clock cannot be set here. What a server sees of a wrong one is a date of another hour: the signature then fails for it, whichever of both it looks at first.
	var wrong sync.Map
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host
		if _, on := wrong.Load("on"); on {
			r.Out.Header.Set("X-Amz-Date", time.Now().Add(-3*time.Hour).UTC().Format("20060102T150405Z"))
		}
	}, ModifyResponse: func(a *http.Response) error {
		if _, on := wrong.Load("on"); on {
			a.Header.Set("Date", time.Now().Add(3*time.Hour).UTC().Format(http.TimeFormat))
		}
		return nil
	}}
	srv := httptest.NewServer(proxy)
	defer srv.Close()
	w := newWorld(t, 1)
	w.config = func(c *Config) {
		var err error
		if c.Bucket, err = bucket.OpenS3(&bucket.S3{Endpoint: srv.URL, Bucket: far.Bucket, CredentialsFile: far.CredentialsFile, DialTimeout: rig.Patience}); err != nil {
			t.Fatal(err)
		}
	}
	w.start()
	w.checkpoint(20)
	if _, err := w.cut(); err != nil {
		t.Fatal(err)
	}
	wrong.Store("on", true)
	_, err = w.up.round(t.Context())
	if !errors.Is(err, bucket.ErrSkewed) || !about3h(err.Error()) || !strings.Contains(err.Error(), "behind") {
		t.Fatalf("%v", err)
	}
	t.Log(err)
	if s := w.pipe.Status(time.Now()); !about3h(s.Error) {
		t.Errorf("status says %q", s.Error)
	}
	wrong.Delete("on")
	if err := w.drive(); err != nil {
		t.Fatal(err)
	}
	if w.confirmed() != w.id {
		t.Fatal("nothing was uploaded")
	}
}
