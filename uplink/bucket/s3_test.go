//go:build !nos3

package bucket_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/bucket"
	"github.com/weirstream/weir/uplink/bucket/buckettest"
)

func startS3(t testing.TB) (*rig.S3, *bucket.S3) {
	t.Helper()
	far := rig.NeedS3(t, t.TempDir(), "bucket-1")
	return far, &bucket.S3{Endpoint: "http://" + far.Addr, Bucket: far.Bucket, Prefix: "site/7", CredentialsFile: far.CredentialsFile, DialTimeout: rig.Patience}
}

func openS3(t testing.TB, c *bucket.S3) bucket.Bucket {
	t.Helper()
	b, err := bucket.OpenS3(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

func TestS3(t *testing.T) {
	_, c := startS3(t)
	buckettest.Run(t, openS3(t, c), "gw-1/")
	buckettest.RunPages(t, openS3(t, c), "gw-2/")
	none := *c
	none.Prefix = ""
	buckettest.Run(t, openS3(t, &none), "gw-3/")
}

// TestSkewIsNamed: a store that refuses signatures for their date says so in many ways; the error says by how much, and which way.
func TestSkewIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, code string
		status     int
		by         time.Duration
		says       string
		skewed     bool
	}{
		{"aws says so", "RequestTimeTooSkewed", 403, 3 * time.Hour, "is 3h0m", true},
		{"behind", "RequestTimeTooSkewed", 403, -26 * time.Hour, "behind", true},
		{"says only forbidden", "AccessDenied", 403, time.Hour, "ahead", true},
		{"forbidden with the right time", "AccessDenied", 403, 0, "AccessDenied", false},
		{"no such bucket, and the clock is wrong", "NoSuchBucket", 404, time.Hour, "NoSuchBucket", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(-c.by).UTC().Format(http.TimeFormat))
				w.WriteHeader(c.status)
				fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", c.code)
			}))
			defer srv.Close()
			b := openS3(t, &bucket.S3{Endpoint: srv.URL, Bucket: "bucket-1", DialTimeout: rig.Patience})
			err := b.Put(t.Context(), "a", []byte("x"))
			if err == nil || errors.Is(err, bucket.ErrSkewed) != c.skewed || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("%v, want it to say %q, skewed %v", err, c.says, c.skewed)
			}
			t.Log(err)
		})
	}
}

// TestMissingKeysAreNoAnswer: that a file of this machine is missing says nothing of what the bucket holds. Taken for "no such object", a gateway whose keys were not delivered would begin anew.
func TestMissingKeysAreNoAnswer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "credentials")
	b, err := bucket.OpenS3(&bucket.S3{Endpoint: "http://127.0.0.1:9", Bucket: "plant", CredentialsFile: file, DialTimeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ask := map[string]func() error{
		"get":    func() error { _, _, err := b.Get(t.Context(), "x"); return err },
		"list":   func() error { _, err := b.List(t.Context(), "x", ""); return err },
		"newer":  func() error { _, _, err := b.GetNewer(t.Context(), "x", `"1"`); return err },
		"create": func() error { return b.Create(t.Context(), "x", []byte("y")) },
		"swap":   func() error { _, err := b.Replace(t.Context(), "x", `"1"`, []byte("y")); return err },
		"put":    func() error { return b.Put(t.Context(), "x", []byte("y")) },
		"delete": func() error { return b.Delete(t.Context(), "x") },
	}
	for what, do := range ask {
		if err := do(); err == nil || errors.Is(err, bucket.ErrNotFound) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAnswersThatDoNotEnd: a store that lies costs a gateway neither its memory nor its link. An error's text is read to its end by the client, headers up to 10 MiB.
func TestAnswersThatDoNotEnd(t *testing.T) {
	junk := bytes.Repeat([]byte("<Error>"), 10_000)
	var sent atomic.Int64
	endless := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("ETag", `"1"`)
			w.WriteHeader(status)
			for n, err := 0, error(nil); err == nil; n, err = w.Write(junk) {
				sent.Add(int64(n))
			}
		}
	}
	for what, answer := range map[string]http.HandlerFunc{
		"an object": endless(200), "forbidden": endless(403), "not found": endless(404), "failed": endless(500),
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			n, err := io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for i := 0; err == nil; i++ {
				sent.Add(int64(n))
				n, err = fmt.Fprintf(c, "X-%d: %s\r\n", i, junk[:1000])
			}
		},
	} {
		srv := httptest.NewServer(answer)
		b := openS3(t, &bucket.S3{Endpoint: srv.URL, Bucket: "bucket-1", DialTimeout: rig.Patience})
		sent.Store(0)
		ctx, cancel := context.WithTimeout(bucket.WithBytesMax(t.Context(), 1<<20), rig.Patience)
		_, _, err := b.GetNewer(ctx, "a", "")
		if late := ctx.Err(); err == nil || late != nil || errors.Is(err, bucket.ErrNotFound) {
			t.Errorf("%s: %v, %v", what, err, late)
		}
		cancel()
		b.Close()
		srv.CloseClientConnections()
		srv.Close()
		if n := sent.Load(); n > 16<<20 { // the kernel has some of it
			t.Errorf("%s: %d bytes were taken", what, n)
		}
	}
}
