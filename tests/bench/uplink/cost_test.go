// Package uplink measures what a result costs on the way upstream: CPU time of the sink's side, bytes on the wire in both
// directions. It runs with WEIR_BENCH=1 (make bench), prints a table and never fails on timing.
package uplink

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/tests/ends"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
)

func TestMain(m *testing.M) { ends.Main(m) }

var one = uplink.Incarnation{Major: 1}

// sizes are results per batch, and how many batches a round has.
var sizes = []struct{ results, batches int }{{1, 100}, {100, 20}, {1000, 5}}

// rounds are gone through by all sinks in turn, so that what else the machine does falls on all alike.
const rounds = 4

// cost of results of one sink in batches of one size.
type cost struct {
	cpu      time.Duration // user and system time of this process; the servers are others
	results  int
	up, down int64 // bytes on the wire, of counted results
	counted  int
}

func (c *cost) String() string {
	wire := "| — | — "
	if c.counted > 0 {
		wire = fmt.Sprintf("| %.0f | %.1f ", float64(c.up)/float64(c.counted), float64(c.down)/float64(c.counted))
	}
	return fmt.Sprintf("| %.1f %s", float64(c.cpu.Microseconds())/float64(c.results), wire)
}

// TestCostOfAResult prints the table of docs/sinks.md. CPU and bytes come from separate passes: the counting proxy is in this process.
func TestCostOfAResult(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	all := ends.Start(t)
	costs := make([][]cost, len(all))
	for round := range rounds {
		for i, e := range all {
			if costs[i] == nil {
				costs[i] = make([]cost, len(sizes))
			}
			for k, s := range sizes {
				measure(t, e, fmt.Sprintf("r%dk%d", round, k), s.results, s.batches, &costs[i][k])
			}
		}
	}
	for i, e := range all {
		if e.Addr == "" {
			continue
		}
		for k, s := range sizes {
			count(t, e, fmt.Sprintf("w%d", k), s.results, &costs[i][k])
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "a row is %d bytes of JSON; per result: µs of CPU, bytes up, bytes down\n", len(ends.Row(1)))
	for i, e := range all {
		fmt.Fprintf(&b, "| %s ", e.Name)
		for k := range sizes {
			b.WriteString(costs[i][k].String())
		}
		b.WriteString("|\n")
	}
	t.Log("\n" + b.String())
}

// open connects a sink by way of addr and sends two batches: what is done once is not counted.
func open(t *testing.T, e ends.End, addr, sink string, results int) uplink.Endpoint {
	t.Helper()
	far, err := e.Connect(addr, sink)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Open(t.Context(), ends.Stream(sink), one, 1); err != nil {
		t.Fatal(err)
	}
	send(t, far, sink, 0, 2, results)
	return far
}

// send makes the batches first, so that only the endpoint is measured.
func send(t *testing.T, far uplink.Endpoint, sink string, from, batches, results int) time.Duration {
	t.Helper()
	all := make([]*uplink.Batch, batches)
	for i := range all {
		first := uint64((from+i)*results) + 1
		b := &uplink.Batch{Stream: ends.Stream(sink), Generation: 1, Incarnation: one, Previous: first - 1, First: first, Last: first + uint64(results) - 1}
		for seq := b.First; seq <= b.Last; seq++ {
			b.Results = append(b.Results, pipeline.Result{Seq: seq, Last: seq, Kind: pipeline.ResultData, Time: pipeline.NoTime, Payload: ends.Row(seq)})
		}
		all[i] = b
	}
	before := cpu(t)
	for _, b := range all {
		if ans, err := far.Send(t.Context(), b); err != nil || ans.Durable != b.Last {
			t.Fatalf("%+v %v", ans, err)
		}
	}
	return cpu(t) - before
}

func measure(t *testing.T, e ends.End, sink string, results, batches int, c *cost) {
	t.Helper()
	far := open(t, e, e.Addr, sink, results)
	defer far.Close()
	c.cpu += send(t, far, sink, 2, batches, results)
	c.results += batches * results
}

// count lets ten batches go through a proxy.
func count(t *testing.T, e ends.End, sink string, results int, c *cost) {
	t.Helper()
	p, err := rig.NewProxy(e.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	far := open(t, e, p.Addr(), sink, results)
	defer far.Close()
	up0, down0 := p.Passed()
	send(t, far, sink, 2, 10, results)
	up, down := p.Passed()
	c.up, c.down, c.counted = up-up0, down-down0, 10*results
}

func cpu(t *testing.T) time.Duration {
	t.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
