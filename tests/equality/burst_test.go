package equality

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	weir "github.com/weirstream/weir/pipeline/exec"
)

// bursts are pipelines in which few messages become very many rows.
var bursts = map[string]struct {
	steps   string
	journal func(n int) []pipeline.Entry
}{
	// Every element meets every other one as it comes.
	"interval join": {
		steps: `
      - {uid: f, from: a, flatten: {field: list, as: e, index: i, limit: 5000}}
      - {uid: g, from: f, filter: "i >= 0"}
      - {uid: j, from: [f, g], join: {on: [k], within: {before: 1s, after: 1s}, select: {k: k, l: left.i, r: right.i}}}`,
		journal: oneArray,
	},
	// They meet when the window fires.
	"window join": {
		steps: `
      - {uid: f, from: a, flatten: {field: list, as: e, index: i, limit: 5000}}
      - {uid: g, from: f, filter: "i >= 0"}
      - {uid: j, from: [f, g], join: {on: [k], window: {tumbling: 10s}, select: {k: k, l: left.i, r: right.i}}}`,
		journal: oneArray,
	},
	// One row lies in a hundred thousand windows.
	"hopping": {
		steps: `
      - {uid: j, from: a, by: [k], window: {hopping: 100000s, slide: 1s}, aggregate: {n: count(), v: sum(v)}}`,
		journal: func(n int) []pipeline.Entry {
			return []pipeline.Entry{message(1, 1000, ""), message(2, 1000+int64(n)*1000, "")}
		},
	},
}

func message(pos pipeline.Position, ts int64, list string) pipeline.Entry {
	return pipeline.Entry{
		Pos: pos, Source: "a", Topic: []byte("a/x"), Kind: pipeline.EntryMessage, Stamp: pipeline.Stamp{Elapsed: int64(pos)},
		Payload: fmt.Appendf(nil, `{"id":1,"k":"x","ts":%d,"v":1,"list":[%s]}`, ts, list),
	}
}

func oneArray(n int) []pipeline.Entry {
	return []pipeline.Entry{message(1, 1000, strings.TrimSuffix(strings.Repeat(`{"a":1},`, n), ","))}
}

// discard counts results.
type discard struct {
	count int
	chain uint64
}

func (d *discard) Emit(_ context.Context, rs []pipeline.Result) error {
	d.count += len(rs)
	d.chain = rs[len(rs)-1].Chain
	return nil
}
func (d *discard) Barrier(context.Context, pipeline.Barrier) error { return nil }

// TestBurst is the child of TestBurstsStaySmall: it runs one burst and tells what it took.
func TestBurst(t *testing.T) {
	name, n, whole := os.Getenv("BURST"), 0, os.Getenv("BURST_WHOLE") != ""
	if name == "" {
		t.Skip("a child process of TestBurstsStaySmall")
	}
	fmt.Sscan(os.Getenv("BURST_SIZE"), &n)
	b := bursts[name]
	text := `gateway: g
state_dir: /nowhere/weir
security: {allow_private: true}
brokers:
  m: {url: "tcp://127.0.0.1:1883"}
sources:
  a:
    mqtt: {broker: m, topic: a/+}
    decode: json
    fields: {id: int, k: string, ts: int, v: int, list: json}
    time: {field: ts, unit: ms, out_of_orderness: 0s, earliest: 1970-01-01}
pipelines:
  p:
    steps:` + b.steps + `
    sinks:
      - {uid: out, from: j, commit: immediate, http: {url: "http://127.0.0.1:9/weir"}}
`
	far := &discard{}
	o := weir.Options{
		Graph: compile(t, text), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
		Sink: func(uid string) (pipeline.ResultSink, error) {
			if uid == weir.DeadSink {
				return &discard{}, nil
			}
			return far, nil
		},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &blocks{entries: b.journal(n), size: 64, end: io.EOF}, nil
		},
	}
	if whole {
		o.Bound = pipeline.Bound{Rows: math.MaxInt, Bytes: math.MaxInt}
	}
	debug.FreeOSMemory()
	before := residentMax(t)
	p, err := weir.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	fmt.Printf("burst: %d results chain %x took %d KiB\n", far.count, far.chain, residentMax(t)-before)
}

// residentMax is the most memory that the process has had, in KiB.
func residentMax(t *testing.T) int {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	m := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(b)
	kib, err := strconv.Atoi(string(m[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib
}

func runBurst(t *testing.T, name string, n int, whole string) (results, kib int, chain string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestBurst$", "-test.count=1")
	child.Env = append(os.Environ(), "BURST="+name, fmt.Sprint("BURST_SIZE=", n), "BURST_WHOLE="+whole)
	b, err := child.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	for _, line := range strings.Split(string(b), "\n") {
		if _, err := fmt.Sscanf(line, "burst: %d results chain %s took %d KiB", &results, &chain, &kib); err == nil {
			return results, kib, chain
		}
	}
	t.Skipf("the child could not measure:\n%s", b)
	return 0, 0, ""
}

// TestBurstsStaySmall: what one message makes of itself goes through in parts, with the same results as in one piece; in one piece it takes
// several times the memory, so that the measure is seen to measure.
func TestBurstsStaySmall(t *testing.T) {
	if testing.Short() {
		t.Skip("runs children")
	}
	for name, n := range map[string]int{"interval join": 500, "window join": 500, "hopping": 100_000} {
		results, kib, chain := runBurst(t, name, n, "")
		sameResults, most, sameChain := runBurst(t, name, n, "whole")
		t.Logf("%s: %d results, %d MiB, in one piece %d MiB", name, results, kib>>10, most>>10)
		if results < 90_000 || results != sameResults || chain != sameChain {
			t.Errorf("%s: %d results with chain %s, in one piece %d with %s", name, results, chain, sameResults, sameChain)
		}
		if most < 2*kib {
			t.Errorf("%s: %d KiB, in one piece %d KiB", name, kib, most)
		}
	}
}
