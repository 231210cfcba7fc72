package agent

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/tests/rig"
)

// testConfig is an agent with one pipeline; its broker and its upstream are not there. The socket's path must stay short.
func testConfig(t *testing.T, more string) *config.Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	text := fmt.Sprintf(`
gateway: test
state_dir: %s/state
security: {allow_private: true, file_root: %s/files}
brokers:
  none: {url: "tcp://127.0.0.1:9"}
sources:
  s: {mqtt: {broker: none, topic: "a/{b}"}}
pipelines:
  p:
    checkpoint: {interval: 1s, tolerable_failures: 0, alarm_after: 7, idle_interval: 3m, retained: 5, every_records: 9, min_pause: 2s, timeout: 4s, rebase_ratio: 3}
    steps:
      - {uid: f, from: s, filter: "x > 1"}
    sinks:
      - {uid: up, from: f, http: {url: "http://127.0.0.1:9/weir"}}
      - {uid: copy, from: s, file: {path: deep/down/copy.jsonl}}
%s`, dir, dir, more)
	cfg, err := config.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// startAgent runs an agent until the test ends.
func startAgent(t *testing.T, cfg *config.Config) *Agent {
	t.Helper()
	a, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	for deadline := time.Now().Add(patience); a.Ready() != nil; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(a.Ready())
		}
	}
	return a
}

var (
	documented = regexp.MustCompile("`(weir_[a-z0-9_]+)")
	written    = regexp.MustCompile(`(?m)^(weir_[a-z0-9_]+)`)
)

func names(pattern *regexp.Regexp, text []byte) []string {
	found := map[string]bool{}
	for _, m := range pattern.FindAllSubmatch(text, -1) {
		found[string(m[1])] = true
	}
	var list []string
	for n := range found {
		list = append(list, n)
	}
	slices.Sort(list)
	return list
}

// TestMetricsAreDocumented: docs/metrics.md lists what the agent writes, and nothing else.
func TestMetricsAreDocumented(t *testing.T) {
	cfg := testConfig(t, "")
	if !pebblekv.Built {
		t.Skip("built without Pebble")
	}
	cfg.Pipelines[0].State.Backend = config.BackendPebble
	cfg.Pipelines[0].Dead.Sink.Value = "copy"
	cfg.Central = config.Central{URL: plan.Text{Value: "file://" + t.TempDir()}, Directory: t.TempDir(), Interval: time.Minute, RebaseRatio: 6, Retained: 2, Timeout: time.Minute}
	a := startAgent(t, cfg)
	var out bytes.Buffer
	a.WriteMetrics(&out)
	writeUpgrade(&out, &api.UpgradeStatus{}) // of a gateway that has been upgraded, and of one in a fleet
	writeFleet(&out, &api.FleetStatus{Serials: map[string]uint64{"rollout/stable": 1}, Commands: map[string]uint64{"done": 1}, Refused: map[string]uint64{"replay": 1}})
	page, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	got, want := names(written, out.Bytes()), names(documented, page)
	for _, n := range got {
		if !slices.Contains(want, n) {
			t.Errorf("docs/metrics.md lacks %s", n)
		}
	}
	for _, n := range want {
		if !slices.Contains(got, n) {
			t.Errorf("docs/metrics.md tells of %s, which is not written", n)
		}
	}
}

// TestMetricsListen: metrics.listen serves the metrics and nothing else.
func TestMetricsListen(t *testing.T) {
	addr, err := rig.FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	startAgent(t, testConfig(t, fmt.Sprintf("metrics: {listen: %q}\n", addr)))
	get := func(path string) (int, string) {
		r, err := http.Get("http://" + addr + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	if code, body := get("/metrics"); code != http.StatusOK || !strings.Contains(body, `weir_info{version=`) {
		t.Errorf("%d %.200s", code, body)
	}
	if code, _ := get("/v1/status"); code != http.StatusNotFound {
		t.Errorf("/v1/status answers %d on the metrics' address", code)
	}
}

// TestCheckpointSettingsAreTakenOver: each setting reaches the coordinator, zero tolerable failures too.
func TestCheckpointSettingsAreTakenOver(t *testing.T) {
	at := &attempt{spec: testConfig(t, "").Pipelines[0]}
	c := at.checkpointConfig()
	if c.Interval != time.Second || c.TolerableFailures != 0 || c.AlarmAfter != 7 || c.IdleInterval != 3*time.Minute || c.Retained != 5 ||
		c.EveryRecords != 9 || c.MinPause != 2*time.Second || c.Timeout != 4*time.Second || c.RebaseRatio != 3 {
		t.Errorf("%+v", c)
	}
}

// TestFileSinkMakesItsDirectory: a fresh gateway has none.
func TestFileSinkMakesItsDirectory(t *testing.T) {
	cfg := testConfig(t, "")
	a := startAgent(t, cfg)
	file := filepath.Join(cfg.Security.FileRoot.Value, "deep", "down", "copy.jsonl")
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(file); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not there: %+v", file, sinkOf(a.Status(), "copy"))
		}
	}
}

func sinkOf(s api.Status, uid string) (found api.SinkLedger) {
	for _, p := range s.Pipelines {
		for _, k := range p.Sinks {
			if k.UID == uid {
				found = k
			}
		}
	}
	return found
}
