//go:build !nos3

package objectsink

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// gateway is versitygw, reached through a proxy.
type gateway struct {
	*rig.S3
	line *rig.Proxy
	s3   bucket.S3
	csv  bool
}

func startGateway(t testing.TB) *gateway {
	t.Helper()
	return gatewayIn(t, t.TempDir())
}

// gatewayIn starts a server whose data lies in dir.
func gatewayIn(t testing.TB, dir string) *gateway {
	t.Helper()
	g := &gateway{S3: rig.NeedS3(t, dir, "bucket-1")}
	var err error
	if g.line, err = rig.NewProxy(g.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.line.Close() })
	g.s3 = bucket.S3{Endpoint: "http://" + g.line.Addr(), Bucket: g.Bucket, Prefix: "site/7", CredentialsFile: g.CredentialsFile, DialTimeout: rig.Patience}
	return g
}

func (g *gateway) keys(t testing.TB, path, secret string) {
	t.Helper()
	if err := rig.WriteS3Keys(path, secret); err != nil {
		t.Fatal(err)
	}
}

// Line is the way to the server.
func (g *gateway) Line() uplinktest.Line { return g.line }

// Restart is kill -9.
func (g *gateway) Restart(t testing.TB) {
	t.Helper()
	if err := g.restart(); err != nil {
		t.Fatal(err)
	}
}

func (g *gateway) restart() error {
	g.Kill()
	return g.Start()
}

func (g *gateway) Connect(t testing.TB, board string) uplink.Endpoint {
	c := Config{S3: &g.s3, Compression: "zstd", Board: board}
	if g.csv {
		c = csvConfig(c)
	}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (g *gateway) Held(t testing.TB, s uplink.Stream) []uplinktest.Held {
	b, err := bucket.OpenS3(&g.s3)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	return held(t, b, s)
}

func TestConformanceOfS3(t *testing.T) {
	uplinktest.Run(t, func(t testing.TB) uplinktest.Far { return startGateway(t) }, uplinktest.Options{})
}

func TestConformanceOfCSVInS3(t *testing.T) {
	uplinktest.Run(t, func(t testing.TB) uplinktest.Far {
		g := startGateway(t)
		g.csv = true
		return g
	}, uplinktest.Options{})
}

// TestCutsAndKills: requests are cut before and behind the commit, land late, connections are reset in the middle, and the
// server is killed, while results go through.
func TestCutsAndKills(t *testing.T) {
	g := startGateway(t)
	proxy := g.line
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	q := uplinktest.NewQueue(1, 0)
	var want []string
	inc, counts, kills := one, map[string]int{}, 0
	for round := range 4 {
		for range 30 {
			want = append(want, row(len(want)+1))
			q.Add(want[len(want)-1])
		}
		s, err := New(Config{S3: &g.s3, Compression: "zstd", Board: fmt.Sprint(round)})
		if err != nil {
			t.Fatal(err)
		}
		s.store = &faulty{Bucket: s.store, rand: rnd, percent: 15, counts: counts}
		start, _ := proxy.Passed()
		strikes, next := 0, start
		stop := uplinktest.Break(t, time.Millisecond, func() error {
			up, _ := proxy.Passed() // by what was sent, however slow the machine is: else it would never get a request through
			if up < next {
				return nil
			}
			next = up + 2000 + int64(strikes%5)*1000
			proxy.Reset()
			if strikes++; strikes != 4 {
				return nil
			}
			kills++
			return g.restart()
		})
		err = uplinktest.Drive(t.Context(), q, s, inc, 1, uint64(len(want)))
		stop()
		if err = errors.Join(err, s.Close()); err != nil {
			t.Fatal(err)
		}
		inc.Minor++
	}
	t.Logf("%v, %d connections reset, %d kills", counts, proxy.Resets(), kills)
	if kills == 0 {
		t.Error("the server was never killed")
	}
	if err := uplinktest.Exact(g.Held(t, uplinktest.Stream()), want, nil); err != nil {
		t.Fatal(err)
	}
}

// TestBadEndpoints: each is named, and none loses a result: all are temporary.
func TestBadEndpoints(t *testing.T) {
	g := startGateway(t)
	none, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	answer := func(h http.HandlerFunc) string {
		srv := httptest.NewServer(h)
		t.Cleanup(srv.Close)
		return srv.URL
	}
	wrong := filepath.Join(t.TempDir(), "wrong")
	g.keys(t, wrong, "another secret")
	for _, c := range []struct {
		name string
		set  func(*bucket.S3)
		says string
	}{
		{"unreachable", func(s *bucket.S3) { s.Endpoint = "http://" + none }, "refused"},
		{"missing bucket", func(s *bucket.S3) { s.Bucket = "no-such-bucket" }, "NoSuchBucket"},
		{"wrong secret", func(s *bucket.S3) { s.CredentialsFile = wrong }, "SignatureDoesNotMatch"},
		{"no credentials file", func(s *bucket.S3) { s.CredentialsFile = g.CredentialsFile + "x" }, "no such file"},
		{"anonymous", func(s *bucket.S3) { s.CredentialsFile = "" }, "AccessDenied"},
		{"200 with garbage", func(s *bucket.S3) {
			s.Endpoint = answer(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>welcome</html>") })
		}, "no ETag"},
		{"ignores conditions", func(s *bucket.S3) {
			s.Endpoint = answer(func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("ETag", `"x"`) })
		}, bucket.ErrUnconditional.Error()},
		{"busy", func(s *bucket.S3) {
			s.Endpoint = answer(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
		}, "503"},
		{"private address", func(s *bucket.S3) { s.DenyPrivate = true }, uplink.ErrPrivate.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			s3 := g.s3
			c.set(&s3)
			s, err := New(Config{S3: &s3, Compression: "zstd"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			ctx, cancel := context.WithTimeout(t.Context(), rig.Patience)
			defer cancel()
			_, err = s.Open(ctx, uplinktest.Stream(), one, 1)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("open: %v, want it to say %q", err, c.says)
			}
			if errors.Is(err, uplink.ErrFenced) || errors.Is(err, uplink.ErrRejected) {
				t.Fatalf("open: %v is final", err)
			}
			t.Log(err)
		})
	}
}

// TestKeysAreReadAgain: credentials that were replaced in their file are taken without a restart.
func TestKeysAreReadAgain(t *testing.T) {
	g := startGateway(t)
	g.keys(t, g.s3.CredentialsFile, "the old secret")
	s := g.Connect(t, "a")
	defer s.Close()
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err == nil {
		t.Fatal("a wrong secret is taken")
	}
	g.keys(t, g.s3.CredentialsFile, rig.S3Secret)
	if _, err := s.Open(t.Context(), uplinktest.Stream(), one, 1); err != nil {
		t.Fatal(err)
	}
}

func TestValidateNamesTheField(t *testing.T) {
	good := bucket.S3{Endpoint: "https://s3.example.com", Bucket: "b", DialTimeout: time.Second}
	for says, set := range map[string]func(*bucket.S3){
		"endpoint": func(s *bucket.S3) { s.Endpoint = "s3.example.com" }, "password": func(s *bucket.S3) { s.Endpoint = "https://a:b@s3.example.com" },
		"bucket": func(s *bucket.S3) { s.Bucket = "" }, "prefix": func(s *bucket.S3) { s.Prefix = "/a" }, "dial timeout": func(s *bucket.S3) { s.DialTimeout = 0 },
	} {
		c := good
		set(&c)
		if _, err := New(Config{S3: &c, Compression: "zstd"}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want it to say %s", err, says)
		}
	}
	if _, err := New(Config{S3: &good, Directory: "x", Compression: "zstd"}); err == nil {
		t.Error("directory and S3 together are taken")
	}
	if _, err := New(Config{S3: &good, Compression: "lz4"}); err == nil || !strings.Contains(err.Error(), "compression") {
		t.Errorf("compression lz4: %v", err)
	}
}
