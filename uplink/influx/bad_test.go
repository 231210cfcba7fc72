package influx

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// TestBadServers: each is named with what to do, at the rate of kinds of failure, and all is written once it is mended.
func TestBadServers(t *testing.T) {
	var n *server
	dial := func(t *testing.T, change func(*Config)) uplink.Endpoint {
		n = startServer(t)
		change(&n.config)
		return n.Connect(t, "")
	}
	// answers serves what a sick server says until it is well.
	answers := func(name string, status int, body string, want ...string) uplinktest.Bad {
		var well atomic.Bool
		return uplinktest.Bad{Name: name, Want: want, Heal: func(*testing.T) { well.Store(true) }, Dial: func(t *testing.T) uplink.Endpoint {
			return dial(t, func(c *Config) {
				far := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: n.Addr})
				server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if well.Load() {
						far.ServeHTTP(w, r)
						return
					}
					w.WriteHeader(status)
					fmt.Fprint(w, body)
				}))
				t.Cleanup(server.Close)
				c.URL = server.URL
			})
		}}
	}
	none, err := rig.FreeAddr()
	uplinktest.Must(t, err)
	dir := t.TempDir()
	bad := []uplinktest.Bad{
		{Name: "nobody listens", Want: []string{none, "connection refused"},
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *Config) { c.URL = "http://" + none })
			}},
		{Name: "no such name", Want: []string{"nowhere..invalid", "no such host"},
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *Config) { c.URL = "https://nowhere..invalid" })
			}},
		{Name: "missing bucket", Want: []string{"later", "not found", "make it there"},
			Dial: func(t *testing.T) uplink.Endpoint {
				return dial(t, func(c *Config) { c.Bucket = "later" })
			},
			Heal: func(t *testing.T) {
				_, err := n.Query("CREATE DATABASE later")
				uplinktest.Must(t, err)
			}},
		answers("wrong token", http.StatusUnauthorized, `{"code":"unauthorized","message":"unauthorized access"}`, "401", "unauthorized access", "token_file"),
		answers("read only token", http.StatusForbidden, `{"code":"forbidden","message":"insufficient permissions for write"}`, "403", "insufficient permissions", "token_file"),
		answers("over its quota", http.StatusInsufficientStorage, `{"message":"storage quota exceeded"}`, "507", "quota", "full"),
		answers("broken", http.StatusInternalServerError, `{"code":"internal error","message":"unexpected error writing points"}`, "500", "unexpected error"),
		answers("garbage with 200", http.StatusOK, "<html>welcome</html>", "not that of InfluxDB"),
		answers("a proxy's bad gateway", http.StatusBadGateway, "<html>upstream down</html>", "502"),
	}
	full := uplinktest.OnFullDisk(filepath.Join(dir, "wal"), 64<<10, func(t *testing.T) uplink.Endpoint {
		n = serverIn(t, dir)
		return n.Connect(t, "")
	}, "500", "no space left on device")
	drain := full.Heal
	full.Heal = func(t *testing.T) { drain(t); n.Restart(t) } // else its log stays shut
	bad = append(append(bad, full), uplinktest.Secured{CA: "give its CA in ca",
		Server: func(t *testing.T) string { n = startServer(t); return n.Addr },
		Dial: func(t *testing.T, addr, ca string) uplink.Endpoint {
			n.config.URL, n.config.HTTP.TLS.CA = "https://"+addr, ca
			return n.Connect(t, "")
		}}.Certificates()...)
	for _, b := range bad {
		t.Run(b.Name, b.Run)
	}
}
