// Package uplink measures what a result costs on the way upstream: CPU time of the sender's process, bytes on the wire in both
// directions. It runs with WEIR_BENCH=1 (make bench), prints a line per figure and never fails on timing.
package uplink

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/httpsink"
	"github.com/weirstream/weir/uplink/postgres"
	"github.com/weirstream/weir/uplink/receiver"
)

var stream = uplink.Stream{Gateway: "gw-1", Pipeline: "2f0e8a7c-5a5e-4c39-9a57-6c6f2b1d9b10", Sink: "out"}

var one = uplink.Incarnation{Major: 1}

// row is a window's result.
func row(n uint64) []byte {
	return fmt.Appendf(nil, `{"device":"sensor-%03d","window_start":%d,"window_end":%d,"mean":%.3f,"n":%d,"revision":0}`,
		n%100, 1767225600000+n/100*60000, 1767225660000+n/100*60000, 4+float64(n%977)/100, n%60)
}

func batch(first uint64, size int) *uplink.Batch {
	b := &uplink.Batch{Stream: stream, Generation: 1, Incarnation: one, Previous: first - 1, First: first, Last: first + uint64(size) - 1}
	for i := range uint64(size) {
		b.Results = append(b.Results, pipeline.Result{Seq: first + i, Last: first + i, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: row(first + i)})
	}
	return b
}

// cost is what sending batches took.
type cost struct {
	cpu     time.Duration // of this process
	results int
}

// send makes the batches first, so that only the endpoint is measured.
func send(t *testing.T, e uplink.Endpoint, first uint64, batches, size int) cost {
	t.Helper()
	all := make([]*uplink.Batch, batches)
	for i := range all {
		all[i] = batch(first+uint64(i*size), size)
	}
	before := cpu(t)
	for _, b := range all {
		if ans, err := e.Send(t.Context(), b); err != nil || ans.Durable != b.Last {
			t.Fatalf("%+v %v", ans, err)
		}
	}
	return cost{cpu: cpu(t) - before, results: batches * size}
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

func open(t *testing.T, e uplink.Endpoint) {
	t.Helper()
	if _, err := e.Open(t.Context(), stream, one, 1); err != nil {
		t.Fatal(err)
	}
}

// TestCostOfAResult prints cost per result of each sink, for large and small batches. CPU and bytes come from separate passes: the
// counting proxy is in this process.
func TestCostOfAResult(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	t.Logf("a row is %d bytes of JSON", len(row(1)))
	t.Run("postgres", func(t *testing.T) {
		pg, err := rig.StartPostgres()
		if errors.Is(err, rig.ErrNoPostgres) {
			t.Skip(err)
		} else if err != nil {
			t.Fatal(err)
		}
		defer pg.Close() //nolint:errcheck // temporary
		measure(t, pg.Addr, func(addr string, n int) uplink.Endpoint {
			c := postgres.Default()
			c.DSNFile = filepath.Join(t.TempDir(), "dsn")
			if err := os.WriteFile(c.DSNFile, []byte(pg.DSN(addr)), 0o600); err != nil {
				t.Fatal(err)
			}
			c.Schema, c.Table, c.Create = fmt.Sprintf("s%d", n), "rows", true
			if _, err := pg.Query("CREATE SCHEMA " + c.Schema); err != nil {
				t.Fatal(err)
			}
			for name, kind := range map[string]pipeline.Kind{"device": pipeline.String, "window_start": pipeline.Int, "window_end": pipeline.Int,
				"mean": pipeline.Float, "n": pipeline.Int, "revision": pipeline.Int} {
				c.Columns = append(c.Columns, postgres.Column{Name: name, From: name, Kind: kind})
			}
			return must(postgres.New(c))(t)
		})
	})
	t.Run("http", func(t *testing.T) {
		n := 0
		r := must(receiver.Open(receiver.Options{Path: filepath.Join(t.TempDir(), "r.db"), Config: receiver.Default()}))(t)
		defer r.Close()
		server := httptest.NewServer(r)
		defer server.Close()
		addr := strings.TrimPrefix(server.URL, "http://")
		t.Log("CPU holds the receiver's: it is in this process")
		measure(t, addr, func(addr string, _ int) uplink.Endpoint {
			n++
			c := httpsink.Default()
			c.URL = "http://" + addr + "/weir"
			return &renamed{must(httpsink.New(c))(t), fmt.Sprint(n)}
		})
	})
}

// renamed gives each pass a stream of its own.
type renamed struct {
	uplink.Endpoint
	name string
}

func (r *renamed) Open(ctx context.Context, s uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.Sink = r.name
	return r.Endpoint.Open(ctx, s, inc, generation)
}

func (r *renamed) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	b.Stream.Sink = r.name
	return r.Endpoint.Send(ctx, b)
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// measure runs the passes. connect gives an endpoint on an empty far end.
func measure(t *testing.T, addr string, connect func(addr string, n int) uplink.Endpoint) {
	for n, size := range []int{500, 50, 1} {
		batches := max(20000/size, 40)
		if size == 1 {
			batches = 1000
		}
		e := connect(addr, 2*n)
		open(t, e)
		warm := uint64(3*size) + 1
		send(t, e, 1, 3, size)
		c := send(t, e, warm, batches, size)
		_ = e.Close()
		p := must(rig.NewProxy(addr))(t)
		e = connect(p.Addr(), 2*n+1)
		open(t, e)
		send(t, e, 1, 3, size)
		up0, down0 := p.Passed()
		send(t, e, warm, 40, size)
		up, down := p.Passed()
		_ = e.Close()
		_ = p.Close()
		results := float64(40 * size)
		t.Logf("%3d results per batch: %6.2f µs CPU, %6.1f bytes up, %5.1f bytes down per result", size,
			float64(c.cpu.Nanoseconds())/1e3/float64(c.results), float64(up-up0)/results, float64(down-down0)/results)
	}
}
