// Package parallel_test measures how a keyed pipeline scales from one core to two. Runs alternate, and those during which other processes
// took more than a tenth of the machine do not count; of the others the least time does. It runs with WEIR_BENCH=1 (make bench), for
// WEIR_BENCH_PATIENCE (default 1m) at most.
package parallel_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/replay"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

const (
	records    = 400_000
	targetMin  = 1.6
	quietRuns  = 5    // of each setting; then it is enough
	foreignMax = 0.10 // of the machine, in a run that counts
)

const text = `
gateway: bench
state_dir: /nowhere
security: {allow_private: true}
brokers:
  rig: {url: "tcp://127.0.0.1:1"}
sources:
  telemetry:
    mqtt: {broker: rig, topic: "site/+/dev/+/telemetry", qos: 1}
    decode: json
    fields: {ts: int, device: string, temperature: float, humidity: float}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  keyed:
    steps:
      - {uid: dry, from: telemetry, filter: humidity < 75}
      - {uid: mean, from: dry, by: [device], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(temperature), low: min(temperature), high: max(temperature)}}
      - {uid: moved, from: dry, by: [device], deadband: {value: temperature, threshold: 15}}
      - {uid: warm, from: dry, by: [device], alarm: {value: temperature, raise: "> 30", clear: "< 20"}}
    sinks:
      - {uid: to-mean, from: mean, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-moved, from: moved, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-warm, from: warm, http: {url: "http://127.0.0.1:1/weir"}}
`

func graph(t *testing.T, n int) *plan.Graph {
	c, err := config.Parse("bench.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	g := c.Pipelines[0].Graph
	g.Parallelism = n
	return g
}

func payload(n int) string {
	return fmt.Sprintf(`{"ts":%d,"device":"dev-%04d","temperature":%d.%02d,"humidity":%d.%d,"status":"ok","seq":%d,"site":"abcdef"}`,
		1767225600000+n/10, n*31%1000, 15+n%20, n*7%100, 30+n%50, n%10, n)
}

// memory is a journal in memory: what the agent's reader costs is left out.
type memory struct {
	entries []pipeline.Entry
}

func (m *memory) Next(context.Context) (*pipeline.Block, error) {
	if len(m.entries) == 0 {
		return nil, io.EOF
	}
	n := min(len(m.entries), 4096)
	b := &pipeline.Block{Entries: m.entries[:n], First: m.entries[0].Pos, Last: m.entries[n-1].Pos}
	m.entries = m.entries[n:]
	return b, nil
}
func (m *memory) Close() error { return nil }

type nowhere struct{}

func (nowhere) Emit(context.Context, []pipeline.Result) error   { return nil }
func (nowhere) Barrier(context.Context, pipeline.Barrier) error { return nil }

// engine runs the records through the engine alone.
func engine(t *testing.T, entries []pipeline.Entry, n int) {
	p, err := exec.New(exec.Options{
		Graph: graph(t, n), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) { return &memory{entries}, nil },
		Sink: func(string) (pipeline.ResultSink, error) { return nowhere{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// whole runs them as weir replay does, from JSON lines.
func whole(t *testing.T, recording []byte, n int) {
	g := graph(t, n)
	match := func(name []byte) bool { return topic.Match(g.Sources[0].Filter, name) }
	_, err := replay.Run(t.Context(), replay.Options{
		Graph: g, Routes: []replay.Route{{Source: g.Sources[0].Name, Match: match}}, Input: bytes.NewReader(recording), Out: io.Discard,
	})
	if err != nil {
		t.Fatal(err)
	}
}

// setting is one way to run.
type setting struct {
	cores, n  int
	quiet     int
	wall, cpu time.Duration // the least of the quiet runs
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// allCPU is what all processes and the host have taken of the machine, in steps of 10 ms.
func allCPU(t *testing.T) time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Skip("no /proc/stat: it cannot be told whether others run")
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var ticks int64
	for i, f := range strings.Fields(line)[1:] {
		if n, err := strconv.ParseInt(f, 10, 64); err == nil && i != 3 && i != 4 && i < 8 { // but idle and iowait; guests are in user
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// idle looks for a moment whether the machine is quiet, so that a busy one is not made busier.
func idle(t *testing.T) bool {
	before := allCPU(t)
	time.Sleep(200 * time.Millisecond)
	return float64(allCPU(t)-before) <= foreignMax*float64(200*time.Millisecond)*float64(runtime.NumCPU())
}

func (s *setting) measure(t *testing.T, run func(n int)) {
	old := runtime.GOMAXPROCS(s.cores)
	defer runtime.GOMAXPROCS(old)
	runtime.GC()
	all, own, start := allCPU(t), ownCPU(), time.Now()
	run(s.n)
	wall, spent := time.Since(start), ownCPU()-own
	foreign := allCPU(t) - all - spent
	if float64(foreign) > foreignMax*float64(wall)*float64(runtime.NumCPU()) {
		return
	}
	s.quiet++
	if s.wall == 0 || wall < s.wall {
		s.wall = wall
	}
	if s.cpu == 0 || spent < s.cpu {
		s.cpu = spent
	}
}

func TestScaling(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	patience := time.Minute
	if d, err := time.ParseDuration(os.Getenv("WEIR_BENCH_PATIENCE")); err == nil {
		patience = d
	}
	var entries []pipeline.Entry
	var recording []byte
	for n := range records {
		body, topic := payload(n), fmt.Sprintf("site/a/dev/%03d/telemetry", n%100)
		entries = append(entries, pipeline.Entry{
			Pos: pipeline.Position(n + 1), Stamp: pipeline.Stamp{Elapsed: int64(n/64) * 1e6}, Kind: pipeline.EntryMessage, Source: "telemetry",
			Topic: []byte(topic), Payload: []byte(body),
		})
		recording = fmt.Appendf(recording, "{\"n\":%d,\"at_ms\":%d,\"topic\":%q,\"qos\":1,\"payload\":%q}\n", n+1, 1767225600000+n/10, topic, body)
	}
	for name, run := range map[string]func(n int){
		"engine": func(n int) { engine(t, entries, n) },
		"replay": func(n int) { whole(t, recording, n) },
	} {
		settings := []*setting{{cores: 1, n: 1}, {cores: 1, n: 2}, {cores: 2, n: 1}, {cores: 2, n: 2}}
		least := func() (n int) {
			n = settings[0].quiet
			for _, s := range settings {
				n = min(n, s.quiet)
			}
			return n
		}
		for start := time.Now(); least() < quietRuns && time.Since(start) < patience; {
			for _, s := range settings {
				if idle(t) {
					s.measure(t, run)
				}
			}
		}
		if least() == 0 {
			t.Logf("%s: the machine was never quiet: nothing measured", name)
			continue
		}
		for _, s := range settings {
			t.Logf("%s: %d cores, parallelism %d: %.0f ns per record, %.0f ns of CPU (%d quiet runs)", name, s.cores, s.n,
				float64(s.wall.Nanoseconds())/records, float64(s.cpu.Nanoseconds())/records, s.quiet)
		}
		ratio := float64(settings[0].wall) / float64(settings[3].wall)
		t.Logf("%s: one core to two: %.2f times (target %.1f); two cores, parallelism 1 to 2: %.2f times", name, ratio, targetMin,
			float64(settings[2].wall)/float64(settings[3].wall))
		if ratio < targetMin {
			t.Logf("BELOW TARGET: %s scales by %.2f", name, ratio)
		}
	}
}
