package uplinktest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
)

// Sick is an HTTP server that cannot be used, and how an endpoint gets there.
type Sick struct {
	// Server starts the server itself.
	Server func(t *testing.T) (addr string)
	// Dial makes an endpoint on a URL; Server was called before.
	Dial func(t *testing.T, url string) uplink.Endpoint
	// Only is the method of the requests that go wrong; "": all.
	Only string
	// Type is the content type of what it answers; "": as it looks.
	Type string
}

// Answers is a server that gives this answer in place of its own until it is well.
func (s Sick) Answers(name string, status int, body string, want ...string) Bad {
	var well atomic.Bool
	return Bad{Name: name, Want: want, Heal: func(*testing.T) { well.Store(true) }, Dial: func(t *testing.T) uplink.Endpoint {
		far := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.Server(t)}) // the Host header, which S3 signs, stays
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if well.Load() || s.Only != "" && s.Only != r.Method {
				far.ServeHTTP(w, r)
				return
			}
			if s.Type != "" {
				w.Header().Set("Content-Type", s.Type)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(server.Close)
		return s.Dial(t, server.URL)
	}}
}

// Nowhere are addresses at which there is no server.
func (s Sick) Nowhere(t *testing.T) []Bad {
	none, err := rig.FreeAddr()
	Must(t, err)
	at := func(url string) func(*testing.T) uplink.Endpoint {
		return func(t *testing.T) uplink.Endpoint {
			s.Server(t)
			return s.Dial(t, url)
		}
	}
	return []Bad{
		{Name: "nobody listens", Want: []string{none, "connection refused"}, Dial: at("http://" + none)},
		{Name: "no such name", Want: []string{"nowhere..invalid", "no such host"}, Dial: at("https://nowhere..invalid")},
	}
}
