// Package parallel_test measures how a keyed pipeline scales from one core to two. Runs of all settings alternate, and those in which its threads
// waited for a core for more than a tenth of the time do not count; of the others the lower quartile does. It runs with WEIR_BENCH=1 (make
// bench), for WEIR_BENCH_PATIENCE (default 1m) per figure at most. On a busy machine give it a higher priority.
package parallel_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	records   = 400_000
	targetMin = 1.6
	quietRuns = 8    // of each setting; then it is enough
	waitedMax = 0.10 // of the cores' time, in a run that counts
)

const head = `
gateway: bench
state_dir: /nowhere
security: {allow_private: true}
brokers:
  rig: {url: "tcp://127.0.0.1:1"}
sources:
  telemetry:
    mqtt: {broker: rig, topic: "site/+/dev/+/telemetry", qos: 1}
    decode: json
    fields: {ts: int, device: string, temperature: float, humidity: float, status: string, seq: int, site: string}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
  keyed:
    steps:
`

// workload is a pipeline; last is the step of its sink.
type workload struct{ name, steps string }

var workloads = []workload{
	{"light", `
      - {uid: dry, from: telemetry, filter: humidity < 75}
      - {uid: mean, from: dry, by: [device], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(temperature), low: min(temperature), high: max(temperature)}}
      - {uid: moved, from: dry, by: [device], deadband: {value: temperature, threshold: 15}}
      - {uid: warm, from: dry, by: [device], alarm: {value: temperature, raise: "> 30", clear: "< 20"}}
    sinks:
      - {uid: to-mean, from: mean, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-moved, from: moved, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-warm, from: warm, http: {url: "http://127.0.0.1:1/weir"}}
`},
	{"expressions", `
      - {uid: sound, from: telemetry, filter: "humidity < 95 and status == 'ok' and temperature > -40"}
      - uid: shaped
        from: sound
        select: {device: device, site: upper(site), f: "temperature * 1.8 + 32", absolute: "round(6.112 * pow(2.718281828, 17.67 * temperature / (temperature + 243.5)) * humidity * 2.1674 / (273.15 + temperature), 3)", dew: "temperature - (100 - humidity) / 5", odd: "seq % 2 == 1", temperature: temperature}
      - {uid: stats, from: shaped, by: [device], window: {hopping: 10s, slide: 2s}, aggregate: {n: count(), mean: avg(f), spread: stddev(absolute), low: min(dew), high: max(dew), last: last(temperature)}}
      - {uid: jumps, from: shaped, by: [device], delta: {value: f, as: jump}}
      - {uid: big, from: jumps, filter: "jump > 30"}
      - {uid: strange, from: shaped, by: [device], zscore: {value: absolute, n: 50, limit: 4}}
    sinks:
      - {uid: to-stats, from: stats, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-big, from: big, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-strange, from: strange, http: {url: "http://127.0.0.1:1/weir"}}
`},
	{"statistics", `
      - {uid: sound, from: telemetry, filter: "humidity < 95 and status == 'ok' and temperature > -40"}
      - {uid: second, from: sound, by: [device], window: {tumbling: 1s}, aggregate: {n: count(), mean: avg(temperature), spread: stddev(humidity), low: min(temperature), high: max(temperature), last: last(seq)}}
      - {uid: trend, from: sound, by: [device], window: {hopping: 1m, slide: 5s}, aggregate: {n: count(), median: median(temperature), p95: "percentile(humidity, 95)", kinds: distinct(seq)}}
      - {uid: runs, from: sound, by: [device], window: {session: 10s}, aggregate: {n: count(), mean: avg(humidity), spread: stddev(temperature)}}
      - {uid: hundred, from: sound, by: [device], window: {count: 100, slide: 10}, aggregate: {mean: avg(temperature), spread: stddev(temperature)}}
      - {uid: strange, from: sound, by: [device], zscore: {value: temperature, n: 100, limit: 4}}
      - {uid: odd, from: sound, by: [device], zscore: {value: humidity, n: 100, limit: 4}}
      - {uid: warm, from: sound, by: [device], alarm: {value: temperature, raise: "> 34", clear: "< 20"}}
    sinks:
      - {uid: to-second, from: second, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-trend, from: trend, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-runs, from: runs, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-hundred, from: hundred, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-strange, from: strange, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-odd, from: odd, http: {url: "http://127.0.0.1:1/weir"}}
      - {uid: to-warm, from: warm, http: {url: "http://127.0.0.1:1/weir"}}
`},
}

func graph(t *testing.T, w workload, n int) *plan.Graph {
	c, err := config.Parse("bench.yaml", []byte(head+w.steps))
	if err != nil {
		t.Fatal(err)
	}
	g := c.Pipelines[0].Graph
	g.Parallelism = n
	return g
}

func payload(n int) string {
	return fmt.Sprintf(`{"ts":%d,"device":"dev-%04d","temperature":%d.%02d,"humidity":%d.%d,"status":"ok","seq":%d,"site":"abcdef"}`,
		1767225600000+int64(n)/10, n*31%1000, 15+n%20, n*7%100, 30+n%50, n%10, n)
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
func engine(t *testing.T, w workload, entries []pipeline.Entry, n int) {
	p, err := exec.New(exec.Options{
		Graph: graph(t, w, n), Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
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
func whole(t *testing.T, w workload, recording []byte, n int) {
	g := graph(t, w, n)
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
	wall, cpu []time.Duration // of the runs that count
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// waited is how long the threads of this process have stood in line for a core.
func waited(t *testing.T) (sum time.Duration) {
	files, err := filepath.Glob("/proc/self/task/*/schedstat")
	if err != nil || len(files) == 0 {
		t.Skip("no schedstat: it cannot be told whether others had the cores")
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // the thread has ended
		}
		if fields := strings.Fields(string(b)); len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += time.Duration(ns)
		}
	}
	return sum
}

func (s *setting) measure(t *testing.T, run func(n int)) {
	old := runtime.GOMAXPROCS(s.cores)
	defer runtime.GOMAXPROCS(old)
	runtime.GC()
	stood, own, start := waited(t), ownCPU(), time.Now()
	run(s.n)
	wall, spent := time.Since(start), ownCPU()-own
	if float64(waited(t)-stood) > waitedMax*float64(wall)*float64(s.cores) {
		return
	}
	s.wall, s.cpu = append(s.wall, wall), append(s.cpu, spent)
}

// perRecord is the lower quartile, in ns.
func perRecord(all []time.Duration) float64 {
	slices.Sort(all)
	return float64(all[len(all)/4].Nanoseconds()) / records
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
		recording = fmt.Appendf(recording, "{\"n\":%d,\"at_ms\":%d,\"topic\":%q,\"qos\":1,\"payload\":%q}\n", n+1, 1767225600000+int64(n)/10, topic, body)
	}
	for _, w := range workloads {
		t.Run(w.name+"/engine", func(t *testing.T) { scaling(t, patience, func(n int) { engine(t, w, entries, n) }) })
		t.Run(w.name+"/replay", func(t *testing.T) { scaling(t, patience, func(n int) { whole(t, w, recording, n) }) })
	}
}

// scaling measures one way to run a pipeline and tells whether it reaches the target.
func scaling(t *testing.T, patience time.Duration, run func(n int)) {
	settings := []*setting{{cores: 1, n: 1}, {cores: 1, n: 2}, {cores: 2, n: 1}, {cores: 2, n: 2}}
	least := func() (n int) {
		n = len(settings[0].wall)
		for _, s := range settings {
			n = min(n, len(s.wall))
		}
		return n
	}
	for start := time.Now(); least() < quietRuns && time.Since(start) < patience; {
		for _, s := range settings {
			s.measure(t, run)
		}
	}
	if least() == 0 {
		t.Log("others had the cores: nothing measured")
		return
	}
	for _, s := range settings {
		t.Logf("%d cores, parallelism %d: %.0f ns per record, %.0f ns of CPU (%d runs)", s.cores, s.n, perRecord(s.wall), perRecord(s.cpu), len(s.wall))
	}
	ratio := func(a, b int) float64 { return perRecord(settings[a].wall) / perRecord(settings[b].wall) }
	t.Logf("one core to two: %.2f times with parallelism 1, %.2f with 1 to 2 (target %.1f); on two cores, parallelism 1 to 2: %.2f times, %.2f times the CPU",
		ratio(0, 2), ratio(0, 3), targetMin, ratio(2, 3), perRecord(settings[3].cpu)/perRecord(settings[2].cpu))
	if r := ratio(0, 3); r < targetMin {
		t.Logf("BELOW TARGET: it scales by %.2f", r)
	}
}
