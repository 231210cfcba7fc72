package httpsink

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadUpstreams: each is named, at the rate of kinds of failure, and all arrives once it is mended.
func TestBadUpstreams(t *testing.T) {
	far := func(t *testing.T) http.Handler {
		r, err := receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	dial := func(t *testing.T, change func(*Config)) uplink.Endpoint {
		c := Default()
		change(&c)
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	// answers serves what a sick server says until it is well.
	answers := func(name string, say func(w http.ResponseWriter), want ...string) uplinktest.Bad {
		var well atomic.Bool
		return uplinktest.Bad{Name: name, Want: want, Heal: func(*testing.T) { well.Store(true) }, Dial: func(t *testing.T) uplink.Endpoint {
			h := far(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if well.Load() {
					h.ServeHTTP(w, r)
					return
				}
				say(w)
			}))
			t.Cleanup(server.Close)
			return dial(t, func(c *Config) { c.URL = server.URL })
		}}
	}
	status := func(code int, text string) func(w http.ResponseWriter) {
		return func(w http.ResponseWriter) { http.Error(w, text, code) }
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sesame"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := []uplinktest.Bad{
		{Name: "nobody listens", Want: []string{"connection refused", addr},
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *Config) { c.URL = "http://" + addr + "/in" })
			},
			Heal: func(t *testing.T) {
				l, err := net.Listen("tcp", addr)
				if err != nil {
					t.Fatal(err)
				}
				server := &http.Server{Handler: far(t)}
				var serving sync.WaitGroup
				serving.Go(func() { _ = server.Serve(l) })
				t.Cleanup(func() { _ = server.Close(); serving.Wait() })
			}},
		{Name: "no such name", Want: []string{"nowhere..invalid", "no such host"},
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *Config) { c.URL = "https://nowhere..invalid/in" })
			}},
		{Name: "no TLS there", Want: []string{"TLS", "127.0.0.1"},
			Dial: func(t *testing.T) uplink.Endpoint {
				server := httptest.NewServer(far(t))
				t.Cleanup(server.Close)
				return dial(t, func(c *Config) { c.URL = "https" + server.URL[len("http"):] })
			}},
		answers("wrong credentials", status(http.StatusUnauthorized, "who are you"), "401", "token_file"),
		answers("not allowed", status(http.StatusForbidden, "no"), "403"),
		answers("full disk", status(http.StatusInsufficientStorage, "no space left"), "507", "no space left"),
		answers("gateway", status(http.StatusBadGateway, "<html>upstream down"), "502"),
		answers("wrong path", status(http.StatusNotFound, "nothing here"), "404"),
		answers("garbage with 200", func(w http.ResponseWriter) { io.WriteString(w, "<html>welcome</html>") }, "127.0.0.1"),
		answers("JSON of somebody else with 200", func(w http.ResponseWriter) { io.WriteString(w, `{"status":"ok"}`) }, "127.0.0.1", "protocol: plain"),
		answers("a number that is no sequence", func(w http.ResponseWriter) { io.WriteString(w, `{"seq":99}`) }, "protocol: plain"),
		answers("a proxy's conflict", status(http.StatusConflict, "<html>conflict</html>"), "409", "protocol: plain"),
		answers("a proxy's conflict as JSON", status(http.StatusConflict, `{"error":"conflict"}`), "409", "protocol: plain"),
		answers("a proxy's precondition", status(http.StatusPreconditionFailed, "no"), "412", "protocol: plain"),
		answers("a proxy's bad request", status(http.StatusBadRequest, "<html>The plain HTTP request was sent to HTTPS port</html>"), "400", "HTTPS port"),
		answers("nothing with 200", func(http.ResponseWriter) {}, "127.0.0.1"),
	}
	bad = append(bad, uplinktest.Secured{CA: "give its CA in ca",
		Server: func(t *testing.T) string {
			server := httptest.NewServer(far(t))
			t.Cleanup(server.Close)
			return server.Listener.Addr().String()
		},
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			return dial(t, func(c *Config) {
				c.URL, c.TLS.CA, c.Transports = "https://"+addr, ca, &Transports{Dates: uplinktest.Dates}
			})
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
