package flash

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// idleConfig is a config as a gateway has it, with everything by default.
const idleConfig = `
gateway: idle
state_dir: DIR/state
security: {file_root: DIR/files}
brokers: {b: {url: "tcp://ADDR"}}
sources:
  s:
    mqtt: {broker: b, topic: "t/{k}", qos: 1}
    decode: json
    fields: {id: int, ts: int, temp: float}
    time: {field: ts, unit: ms}
pipelines:
  p:
    steps:
      - {uid: w, from: s, by: [k], window: {tumbling: 1m}, aggregate: {n: count(), mean: avg(temp)}}
      - {uid: hot, from: s, by: [k], alarm: {value: temp, raise: "> 8", clear: "< 7"}}
    sinks:
      - {uid: out, from: w, file: {path: out.jsonl}}
      - {uid: alarms, from: hot, commit: immediate, file: {path: alarms.jsonl}}
`

// TestIdle tells what an agent costs to which nothing comes: memory, CPU, bytes of the device per minute. Both builds.
func TestIdle(t *testing.T) {
	if os.Getenv("WEIR_BENCH") == "" {
		t.Skip("WEIR_BENCH is not set")
	}
	for _, build := range []string{"small", "build"} {
		t.Run(build, func(t *testing.T) {
			dev := mountExt4(t)
			program := filepath.Join(t.TempDir(), "weir")
			if err := rig.MakeWeir(build, program); err != nil {
				t.Fatal(err)
			}
			idleOnce(t, dev, program)
		})
	}
}

func idleOnce(t *testing.T, dev *device, program string) {
	const settle, minutes = 40 * time.Second, 5
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	file := filepath.Join(dev.dir, "weir.yaml")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("DIR", dev.dir, "ADDR", broker.Addr()).Replace(idleConfig)), 0o600); err != nil {
		t.Fatal(err)
	}
	child, err := rig.StartChild(filepath.Join(t.TempDir(), "weir.log"), nil, program, "run", "-c", file)
	if err != nil {
		t.Fatal(err)
	}
	defer child.Kill()
	ready := func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" }
	if _, err := rig.AwaitStatus(t.Context(), filepath.Join(dev.dir, "state", "weir.sock"), child, rig.Patience, "it is ready", ready); err != nil {
		t.Fatal(err)
	}
	time.Sleep(settle)
	bytes, ticks, switches := dev.written(t), cpuTicks(t, child), contextSwitches(child)
	time.Sleep(minutes * time.Minute)
	const ticksPerSecond = 100 // USER_HZ of every Linux that Go runs on
	resident, err := child.Resident()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("FIGURE idle: %.1f MiB resident (target 15), %.3f %% of a core (target 0.2), %d device bytes per minute (target 0), %d context switches per second",
		float64(resident)/(1<<20), float64(cpuTicks(t, child)-ticks)/ticksPerSecond/(minutes*60)*100, (dev.written(t)-bytes)/minutes, (contextSwitches(child)-switches)/(minutes*60))
}

// cpuTicks are user and system time of the process.
func cpuTicks(t *testing.T, child *rig.Child) (sum int64) {
	_, rest, _ := strings.Cut(procFile(t, child, "stat"), ") ")
	f := strings.Fields(rest)
	for _, v := range f[11:13] {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

func procFile(t *testing.T, child *rig.Child, name string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", child.PID(), name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// contextSwitches are those of all threads.
func contextSwitches(child *rig.Child) (sum int64) {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", child.PID()))
	for _, f := range files {
		b, _ := os.ReadFile(f) // a thread that has ended counts nothing
		for l := range strings.Lines(string(b)) {
			if _, v, ok := strings.Cut(l, "ctxt_switches:"); ok {
				n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
				sum += n
			}
		}
	}
	return sum
}
