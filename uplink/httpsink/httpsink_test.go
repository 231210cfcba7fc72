package httpsink

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/uplink"
)

func TestRefusalsAreClassified(t *testing.T) {
	for _, c := range []struct {
		status int
		want   error
	}{{409, errStatus}, {412, errStatus}, {400, uplink.ErrRejected}, {422, uplink.ErrRejected}, {413, uplink.ErrTooLarge},
		{500, errStatus}, {404, errStatus}, {401, errStatus}, {301, errStatus}} {
		if err := Refusal(c.status, nil, nil); !errors.Is(err, c.want) {
			t.Errorf("%d: %v, want %v", c.status, err, c.want)
		}
	}
	var retry *uplink.RetryAfter
	for v, want := range map[string]time.Duration{"7": 7 * time.Second, "": 0, "Wed, 21 Oct 2026 07:28:00 GMT": 0, "99999999": time.Hour, "-1": 0} {
		if err := Refusal(503, nil, http.Header{"Retry-After": {v}}); !errors.As(err, &retry) || retry.Wait != want {
			t.Errorf("Retry-After %q: %v, want %s", v, err, want)
		}
	}
}

// TestOnlyAReceiverFences: what a proxy on the way says with a receiver's statuses is temporary.
func TestOnlyAReceiverFences(t *testing.T) {
	const receiver, html, foreign = `{"generation":1,"incarnation":"2.0","seq":9,"error":"fenced"}`, "<html>conflict</html>", `{"status":"conflict"}`
	for _, c := range []struct {
		status int
		body   string
		want   error // nil: temporary
	}{{409, receiver, uplink.ErrFenced}, {409, html, nil}, {409, foreign, nil}, {409, "", nil}, {409, "null", nil}, {409, `{"incarnation":"x"}`, nil},
		{412, receiver, uplink.ErrHole}, {412, html, nil}, {412, foreign, nil},
		{400, `{"seq":0,"error":"malformed body"}`, uplink.ErrRejected}, {400, html, nil}, {400, "", nil}, {400, foreign, nil}, {422, receiver, uplink.ErrRejected},
		{422, html, nil}, {413, html, uplink.ErrTooLarge}} {
		_, err := answer(c.status, nil, []byte(c.body))
		final := errors.Is(err, uplink.ErrFenced) || errors.Is(err, uplink.ErrHole) || errors.Is(err, uplink.ErrRejected)
		if err == nil || c.want == nil && (final || !errors.Is(err, errNoReceiver)) || c.want != nil && !errors.Is(err, c.want) {
			t.Errorf("%d %s: %v, want %v", c.status, c.body, err, c.want)
		}
	}
}

func TestPlainConflictIsTemporary(t *testing.T) {
	b := &uplink.Batch{First: 1, Last: 1, Results: []pipeline.Result{{Seq: 1, Last: 1, Kind: pipeline.ResultData}}}
	for _, status := range []int{409, 412} {
		if _, err := plainAnswer(b, status, nil, nil); errors.Is(err, uplink.ErrFenced) || errors.Is(err, uplink.ErrHole) || err == nil {
			t.Errorf("plain %d: %v, want a temporary error", status, err)
		}
	}
}

func TestPlainFormats(t *testing.T) {
	b := &uplink.Batch{First: 1, Last: 5, Results: []pipeline.Result{
		{Seq: 1, Last: 1, Kind: pipeline.ResultData, Payload: []byte("{\n\"a\":1}")},
		{Seq: 2, Last: 4, Kind: pipeline.ResultGap, Payload: []byte("x")},
		{Seq: 5, Last: 5, Kind: pipeline.ResultData, Payload: []byte(`{"a":5}`)}}}
	if got, _ := appendPlain(nil, b, "ndjson"); string(got) != "{ \"a\":1}\n{\"a\":5}\n" {
		t.Errorf("ndjson %q", got)
	}
	if got, _ := appendPlain(nil, b, "array"); string(got) != "[{\n\"a\":1},{\"a\":5}]" {
		t.Errorf("array %q", got)
	}
}

func TestConfigNamesTheFault(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"url":              func(c *Config) { c.URL = "ftp://x" },
		"password":         func(c *Config) { c.URL = "http://u:p@x" },
		"protocol":         func(c *Config) { c.Protocol = "soap" },
		"format":           func(c *Config) { c.Format = "xml" },
		"compression":      func(c *Config) { c.Compression = "lzw" },
		"Weir-Stream":      func(c *Config) { c.Headers = map[string]string{"weir-stream": "x"} },
		"max_record_bytes": func(c *Config) { c.MaxRecordBytes = -1 },
	} {
		c := Default()
		c.URL = "http://localhost:1/x"
		if err := c.Validate(); err != nil {
			t.Fatal(err)
		}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want one that names %s", err, want)
		}
	}
}

func TestDenyPrivateLooksAtTheAddress(t *testing.T) {
	srv := httptest.NewServer(http.NotFoundHandler())
	defer srv.Close()
	c := Default()
	c.URL, c.DenyPrivate = srv.URL, true
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context(), uplink.Stream{Gateway: "g", Pipeline: "p", Sink: "s"}, uplink.Incarnation{Major: 1}, 1); !errors.Is(err, uplink.ErrPrivate) {
		t.Fatalf("loopback: %v, want ErrPrivate", err)
	}
	for address, private := range map[string]bool{"10.1.2.3:80": true, "192.168.0.9:80": true, "[::1]:80": true, "[fe80::1]:80": true, "[::ffff:127.0.0.1]:80": true,
		"169.254.169.254:80": true, "0.0.0.0:80": true, "[fd00::1]:80": true, "93.184.216.34:443": false, "[2606:2800::1]:443": false} {
		if err := uplink.DenyPrivate("tcp", address, nil); errors.Is(err, uplink.ErrPrivate) != private {
			t.Errorf("%s: %v", address, err)
		}
	}
}
