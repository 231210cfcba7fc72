// Package idle shows that an agent to which nothing comes writes nothing: flash is not worn by waiting.
package idle

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	_ "github.com/weirstream/weir/agent/config" // what the agent is made of: see rig.RunWithWeir
	"github.com/weirstream/weir/tests/rig"
)

var weir string // the program under test: everything, as it is released

func TestMain(m *testing.M) { os.Exit(rig.RunWithRelease(m, &weir)) }

const (
	// watched is how long nothing may be written.
	watched = time.Minute
	// quiet is how long nothing was written when the start and what came is worked off: longer than the interval of checkpoints.
	quiet = 15 * time.Second
	// quietByDefault is the same for the default intervals, which the boards set.
	quietByDefault = 40 * time.Second
	poll           = 250 * time.Millisecond
)

// pipelines: a window of event time, which waits for its watermark, an alarm, checkpoints each 2 s; with PENDING a timer as well.
const config = `
gateway: idle
state_dir: DIR/state
security: {file_root: DIR/files}
brokers: {b: {url: "tcp://ADDR"KEEPALIVE}}
sources:
  s:
    mqtt: {broker: b, topic: "t/{k}", qos: 1}
    decode: json
    fields: {id: int, ts: int}
    time: {field: ts, unit: ms}
pipelines:
  p:
CHECKPOINT
    steps:
      - {uid: w, from: s, by: [k], window: {tumbling: 1m}, aggregate: {n: count()}}
      - {uid: hot, from: s, by: [k], alarm: {value: id, raise: "> 8", clear: "< 7"}}
PENDING
    sinks:
      - {uid: out, from: w, file: {path: out.jsonl}}
      - {uid: alarms, from: hot, commit: immediate, file: {path: alarms.jsonl}}
SINK
`

// setup is what the agents of the tests differ by.
type setup struct {
	program string
	env     []string
	// defaults: keepalive and interval of checkpoints as they are, not shortened to see all that recurs within the minute.
	defaults      bool
	pending, sink string // a step with a timer, and its sink
}

// agent starts one, has a message worked off, and waits until it is quiet.
func agent(t *testing.T, o setup) *rig.Child {
	t.Helper()
	child := start(t, o)
	still := quiet
	if o.defaults {
		still = quietByDefault
	}
	last, since, end := written(t, child), time.Now(), time.Now().Add(rig.Patience)
	for time.Since(since) < still {
		if time.Now().After(end) {
			t.Fatal("it does not get quiet")
		}
		time.Sleep(poll)
		if now := written(t, child); now != last {
			last, since = now, time.Now()
		}
	}
	return child
}

// start starts one, and has a message worked off.
func start(t *testing.T, o setup) *rig.Child {
	t.Helper()
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { broker.Close() })
	dir := t.TempDir()
	file := filepath.Join(dir, "weir.yaml")
	keepalive, checkpoint := ", keepalive: 5s", "    checkpoint: {interval: 2s}"
	if o.defaults {
		keepalive, checkpoint = "", ""
	}
	text := strings.NewReplacer("DIR", dir, "ADDR", broker.Addr(), "KEEPALIVE", keepalive, "CHECKPOINT", checkpoint, "PENDING", o.pending, "SINK", o.sink).Replace(config)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	child, err := rig.StartChild(filepath.Join(dir, "weir.log"), o.env, o.program, "run", "-c", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(child.Kill)
	socket := filepath.Join(dir, "state", "weir.sock")
	ready := func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" }
	if _, err := rig.AwaitStatus(t.Context(), socket, child, rig.Patience, "it is ready", ready); err != nil {
		t.Fatal(err)
	}
	broker.Publish("t/k", 1, false, []byte(`{"id":1,"ts":1767225600000}`))
	came := func(s *api.Status) bool {
		p := s.Pipelines[0]
		return len(p.Sources) > 0 && p.Sources[0].Received == 1 && p.Lag == 0
	}
	if _, err := rig.AwaitStatus(t.Context(), socket, child, rig.Patience, "the message is worked off", came); err != nil {
		t.Fatal(err)
	}
	return child
}

// written is how many bytes the kernel has counted as written to storage for the process.
func written(t *testing.T, child *rig.Child) int64 {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", child.PID()))
	if err != nil {
		t.Skipf("NOT TESTED HERE: writes of an idle agent: the kernel does not count them: %v", err)
	}
	for l := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(l, "write_bytes:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Skip("NOT TESTED HERE: writes of an idle agent: the kernel does not count them")
	return 0
}

// watch gives what is written within a minute; it ends at the first byte.
func watch(t *testing.T, child *rig.Child) int64 {
	t.Helper()
	before := written(t, child)
	for end := time.Now().Add(watched); time.Now().Before(end); time.Sleep(poll) {
		if n := written(t, child) - before; n != 0 {
			return n
		}
	}
	return 0
}

// TestIdleWritesNothing: no message comes and no timer is pending: not a byte in a minute.
func TestIdleWritesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and a half")
	}
	t.Parallel()
	child := agent(t, setup{program: weir})
	if n := watch(t, child); n != 0 {
		t.Errorf("%d bytes written in a minute without work", n)
	}
}

// TestPendingTimerIsFound plants the fault: a timer that is due within the minute has the journal take a tick. The minute begins 15 s behind the message or later, as the machine is;
// 70 s behind it lies within for as long as can be.
func TestPendingTimerIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	child := agent(t, setup{program: weir, pending: `      - {uid: silent, from: s, by: [k], absence: {after: 70s}}`, sink: `      - {uid: missing, from: silent, file: {path: missing.jsonl}}`})
	if n := watch(t, child); n == 0 {
		t.Error("a timer that writes is not found")
	}
}
