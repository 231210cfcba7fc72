// Package many measures what a pipeline costs when there are many: 1 and 200 small pipelines over one source in one agent, the difference
// divided by 199. It runs with WEIR_BENCH=1, prints a line per figure, and never fails on a figure. Memory and CPU are those of the agent's
// process; broker and receiver live in the test's. It takes some four minutes, most of them waiting.
package many

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
)

const (
	many     = 200
	messages = 20_000
	settle   = 3 * time.Second
	idle     = 10 * time.Second
	limit    = 5 * time.Minute
	rest     = 150 * time.Second // the collector runs every two minutes at rest, and gives back to the system what it frees
)

// cost is what an agent with so many pipelines took.
type cost struct {
	freshKiB, usedKiB float64 // RSS, idle before the first message, and just behind a burst of all of them
	restedKiB         float64 // RSS after a while of rest
	diskKiB           float64
	idleCPU           float64 // seconds per second
	wakeups           float64 // voluntary context switches per second while idle
	busyCPU           float64 // seconds for all messages, windows, checkpoints and deliveries
	threads           float64
	files             float64 // descriptors
}

func TestManyPipelines(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	weir := filepath.Join(t.TempDir(), "weir")
	if err := rig.BuildWeir(weir, "-trimpath", "-ldflags", "-s -w"); err != nil {
		t.Fatal(err)
	}
	one, all := measure(t, weir, 1), measure(t, weir, many)
	per := func(f func(*cost) float64) float64 { return (f(&all) - f(&one)) / (many - 1) }
	figure(t, "RSS, 1 pipeline, fresh", one.freshKiB/1024, "MiB")
	figure(t, "RSS, 200 pipelines, fresh", all.freshKiB/1024, "MiB")
	figure(t, "RSS, 200 pipelines, used", all.usedKiB/1024, "MiB")
	figure(t, "RSS per further pipeline, fresh", per(func(c *cost) float64 { return c.freshKiB }), "KiB")
	figure(t, "RSS, 200 pipelines, rested", all.restedKiB/1024, "MiB")
	figure(t, "RSS per further pipeline, rested", per(func(c *cost) float64 { return c.restedKiB }), "KiB")
	figure(t, "RSS per further pipeline, used", per(func(c *cost) float64 { return c.usedKiB }), "KiB")
	figure(t, "disk per further pipeline", per(func(c *cost) float64 { return c.diskKiB }), "KiB")
	figure(t, "idle CPU, 1 pipeline", one.idleCPU*1e3, "ms/s")
	figure(t, "idle CPU, 200 pipelines", all.idleCPU*1e3, "ms/s")
	figure(t, "idle wakeups, 1 pipeline", one.wakeups, "/s")
	figure(t, "idle wakeups, 200 pipelines", all.wakeups, "/s")
	figure(t, "CPU per message, 1 pipeline", one.busyCPU/messages*1e6, "us")
	figure(t, "CPU per message and further pipeline", per(func(c *cost) float64 { return c.busyCPU })/messages*1e6, "us")
	figure(t, "threads, 200 pipelines", all.threads, "")
	figure(t, "file descriptors per further pipeline", per(func(c *cost) float64 { return c.files }), "")
}

func figure(t *testing.T, name string, v float64, unit string) {
	load, _ := os.ReadFile("/proc/loadavg")
	t.Logf("FIGURE %-40s %10.3f %-5s (load %s)", name, v, unit, strings.Fields(string(load) + " ?")[0])
}

func configOf(dir, broker, receiver string, pipelines int) string {
	text := strings.NewReplacer("DIR", dir, "BROKER", broker).Replace(`
gateway: bench
state_dir: DIR/state
security: {allow_private: true}
brokers:
  rig: {url: "tcp://BROKER", client_id: weir-bench}
sources:
  telemetry:
    mqtt: {broker: rig, topic: "dev/+", qos: 1}
    decode: json
    fields: {ts: int, device: string, temperature: float, humidity: float}
    time: {field: ts, unit: ms, out_of_orderness: 1s}
pipelines:
`)
	for i := range pipelines {
		text += strings.NewReplacer("NAME", fmt.Sprintf("p%03d", i), "RECEIVER", receiver, "LIMIT", strconv.Itoa(70+i%20)).Replace(`
  NAME:
    start: earliest
    steps:
      - {uid: dry, from: telemetry, filter: humidity < LIMIT}
      - {uid: mean, from: dry, by: [device], window: {tumbling: 1m}, aggregate: {n: count(), mean: avg(temperature)}}
    sinks:
      - {uid: out, from: mean, http: {url: "RECEIVER/weir"}}
`)
	}
	return text
}

func measure(t *testing.T, weir string, pipelines int) (c cost) {
	dir := t.TempDir()
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	far, err := receiver.Open(receiver.Options{Path: filepath.Join(dir, "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	server := httptest.NewServer(far)
	defer server.Close()
	file := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(configOf(dir, broker.Addr(), server.URL, pipelines)), 0o644); err != nil {
		t.Fatal(err)
	}
	agent, err := rig.StartChild(filepath.Join(dir, "weir.log"), nil, weir, "run", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Kill()
	await(t, dir, func(s *api.Status) bool {
		ready := len(s.Sessions) == 1 && s.Sessions[0].State == "ready"
		for i := range s.Pipelines {
			ready = ready && s.Pipelines[i].State == "running"
		}
		return ready
	})
	t.Logf("%d pipelines run", pipelines)
	time.Sleep(settle)
	c.freshKiB, c.threads = procStatus(t, agent.PID(), "VmRSS"), procStatus(t, agent.PID(), "Threads")
	c.idleCPU, c.wakeups = watchIdle(t, agent.PID())

	before := cpuOf(t, agent.PID())
	for n := range messages {
		broker.Publish(fmt.Sprintf("dev/%02d", n%20), 1, false, fmt.Appendf(nil,
			`{"ts":%d,"device":"dev-%02d","temperature":%d.%02d,"humidity":%d.%d,"status":"ok","seq":%d}`,
			1767225600000+int64(n)*20, n%20, 15+n%17, n%100, 30+n%50, n%10, n))
	}
	await(t, dir, func(s *api.Status) bool {
		settled := s.Journal.Last >= messages
		for i := range s.Pipelines {
			p := &s.Pipelines[i]
			settled = settled && p.Lag == 0 && p.Checkpoint.Position >= messages
			for _, k := range p.Sinks {
				settled = settled && k.Pending == 0
			}
		}
		return settled
	})
	c.busyCPU = cpuOf(t, agent.PID()) - before
	time.Sleep(settle)
	c.usedKiB = procStatus(t, agent.PID(), "VmRSS")
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", agent.PID()))
	if err != nil {
		t.Fatal(err)
	}
	c.files = float64(len(files))
	t.Logf("%d pipelines have worked in %d messages", pipelines, messages)
	if pipelines > 1 { // one has nothing to give back
		time.Sleep(rest)
	}
	c.restedKiB = procStatus(t, agent.PID(), "VmRSS")
	c.diskKiB = diskKiB(t, filepath.Join(dir, "state", "pipelines"))
	if err := agent.Stop(time.Minute); err != nil {
		t.Errorf("stop the agent: %v", err)
	}
	return c
}

func await(t *testing.T, dir string, f func(*api.Status) bool) {
	t.Helper()
	client := api.Dial(filepath.Join(dir, "state", "weir.sock"))
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		s, err := client.Status(ctx)
		cancel()
		if err == nil && f(&s) {
			return
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "weir.log"))
	t.Fatalf("the agent did not get there:\n%.4000s", text)
}

// watchIdle is CPU and voluntary context switches, of all threads, per second without a message.
func watchIdle(t *testing.T, pid int) (cpu, wakeups float64) {
	t.Helper()
	start, cpuBefore, switchesBefore := time.Now(), cpuOf(t, pid), switches(t, pid)
	time.Sleep(idle)
	seconds := time.Since(start).Seconds()
	return (cpuOf(t, pid) - cpuBefore) / seconds, (switches(t, pid) - switchesBefore) / seconds
}

func switches(t *testing.T, pid int) (n float64) {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range threads {
		n += statusLine(t, fmt.Sprintf("/proc/%d/task/%s/status", pid, e.Name()), "voluntary_ctxt_switches")
	}
	return n
}

func procStatus(t *testing.T, pid int, name string) float64 {
	t.Helper()
	return statusLine(t, fmt.Sprintf("/proc/%d/status", pid), name)
}

// statusLine reads a number from a status file of /proc.
func statusLine(t *testing.T, file, name string) float64 {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("%s has no %s", file, name)
	return 0
}

// cpuOf is user and system time of a process so far, in seconds, to a hundredth.
func cpuOf(t *testing.T, pid int) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(text))
	user, err1 := strconv.ParseFloat(fields[13], 64)
	system, err2 := strconv.ParseFloat(fields[14], 64)
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	return (user + system) / 100 // USER_HZ
}

// diskKiB is what a tree takes on disk: blocks, not lengths.
func diskKiB(t *testing.T, dir string) (kib float64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			kib += float64(st.Blocks) / 2
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return kib
}
