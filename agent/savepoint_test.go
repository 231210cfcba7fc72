package agent

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// counts gives the counts of the windows that the upstream holds, in their order.
func (b *bench) counts(name, sink string) (n []int) {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID(name))
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: sink}, func(_ uint64, l wire.Line) error {
		var row struct{ N int }
		if err := json.Unmarshal(l.Data, &row); err != nil {
			return err
		}
		n = append(n, row.N)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

// wantCounts: the window of ids 1 to 9, then windows of ten.
func (b *bench) wantCounts(windows int) {
	b.t.Helper()
	want := []int{9}
	for len(want) < windows {
		want = append(want, 10)
	}
	if got := b.counts("p", "later"); fmt.Sprint(got) != fmt.Sprint(want) {
		b.t.Errorf("windows counted %v, want %v", got, want)
	}
}

func at(position uint64) func(s *api.Status) bool {
	return func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= position }
}

// stoppedAt95 gives an agent that stopped its pipeline p behind 95 messages with a savepoint, and ended.
func stoppedAt95(t *testing.T) (*bench, api.SavepointInfo) {
	t.Helper()
	b := benchAt(t, 95)
	info := b.savepoint(true)
	b.halt()
	return b, info
}

func (b *bench) savepoint(stop bool) api.SavepointInfo {
	b.t.Helper()
	take := b.agent.CreateSavepoint
	if stop {
		take = b.agent.StopWithSavepoint
	}
	list, err := take(b.t.Context(), "p", api.SavepointOptions{Pipeline: "p"})
	if err != nil || len(list) != 1 {
		b.t.Fatal(list, err)
	}
	return list[0]
}

// TestRestoreOfAnEarlierSavepointGivesTheSameResults: what came behind it is made again, and upstream holds each result once, whatever backend,
// store and parallelism the pipeline has now.
func TestRestoreOfAnEarlierSavepointGivesTheSameResults(t *testing.T) {
	others := []string{pipelineNamed("p", "log"), pipelineNamed("p", "bbolt"), strings.Replace(pipelineNamed("p", "log"), "    steps:", "    parallelism: 3\n    steps:", 1)}
	if pebblekv.Built {
		others = append(others, strings.Replace(pipelineNamed("p", "pebble"), "    steps:", "    state: {backend: pebble, memory: 4MiB}\n    steps:", 1))
	}
	for i, from := range others {
		to := others[(i+1)%len(others)]
		b := newBench(t, from)
		b.start()
		b.put(1, 95)
		b.await("delivery", at(95))
		info := b.savepoint(false)
		if info.Position != 95 || info.Results != 0 || info.Entries == 0 {
			t.Errorf("%+v", info)
		}
		b.put(96, 200)
		b.await("more", at(200))
		b.halt()

		b.text = strings.Replace(b.text, strings.ReplaceAll(from, "URL", b.url), strings.ReplaceAll(to, "URL", b.url), 1)
		// Another store has none of the checkpoints, so an order comes before the start.
		if err := OrderRestore(filepath.Join(b.dir, "state"), "p", api.RestoreOptions{File: info.File}); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.put(201, 309)
		s := b.await("delivery after the restore", at(309))
		if g := s.Pipelines[0].Sinks[0].Generation; g != 1 {
			t.Errorf("generation %d", g)
		}
		b.halt()
		b.wantIDs("p", [2]int{1, 309})
		b.wantCounts(30) // the last is open still
		if _, err := os.Stat(info.File); err != nil {
			t.Error("a savepoint that nobody claimed is gone")
		}
	}
}

// TestChangedPlanGoesOnFromASavepoint: open windows go on, sequences go on, the new sink begins; without the savepoint the change is refused.
func TestChangedPlanGoesOnFromASavepoint(t *testing.T) {
	b := benchAt(t, 95)
	info := b.savepoint(true)
	if s := b.agent.Status(); s.Pipelines[0].State != "stopped" {
		t.Fatalf("state %s", s.Pipelines[0].State)
	}
	b.put(96, 120)
	b.halt()
	b.text = strings.Replace(b.text, "{uid: all, from: s, select: [id, k]}", "{uid: even, from: s, filter: \"id % 2 == 0\"}\n      - {uid: all, from: s, select: [id, k]}", 1)
	b.text = strings.Replace(b.text, "    sinks:", "    sinks:\n      - {uid: evens, from: even, http: {url: \""+b.url+"\"}}", 1)
	b.start()
	b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File, Claim: true}); err != nil {
		t.Fatal(err)
	}
	b.put(121, 129)
	b.await("delivery", at(129))
	if _, err := os.Stat(info.File); err == nil {
		t.Error("the claimed savepoint is there still")
	}
	b.halt()
	b.start() // and again from its own checkpoint
	b.put(130, 149)
	b.await("delivery", at(149))
	b.halt()
	b.wantIDs("p", [2]int{1, 149})
	b.wantCounts(14)
	if ids, _ := b.ids("p", "evens"); len(ids) == 0 || ids[0] != 96 {
		t.Errorf("the new sink holds %v, want 96 and on", ids)
	}
}

// TestDroppedStateIsRefusedUntilAllowed: the window's size changed, its open panes mean nothing to the new one.
func TestDroppedStateIsRefusedUntilAllowed(t *testing.T) {
	b, info := stoppedAt95(t)
	b.text = strings.Replace(b.text, "tumbling: 10ms", "tumbling: 20ms", 1)
	b.start()
	err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File})
	if err == nil || !strings.Contains(err.Error(), "step w") || !strings.Contains(err.Error(), "--allow-dropped-state") {
		t.Fatalf("%v", err)
	}
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File, AllowDroppedState: true}); err != nil {
		t.Fatal(err)
	}
	b.put(96, 140)
	b.await("delivery", at(140))
	b.halt()
	b.wantIDs("p", [2]int{1, 140})
}

// TestResultsTravelInTheSavepoint: with the upstream away, another gateway delivers what the first had made.
func TestResultsTravelInTheSavepoint(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	right := b.text
	b.text = strings.ReplaceAll(right, b.url, "http://127.0.0.1:1") // nobody listens there
	b.start()
	b.put(1, 95)
	b.await("results", func(s *api.Status) bool {
		p := s.Pipelines[0]
		return p.State == "running" && p.Position >= 95 && len(p.Sinks) > 0 && p.Sinks[0].Pending == 95
	})
	info := b.savepoint(true)
	b.halt()
	if info.Results != 95+9 {
		t.Errorf("%d results in the savepoint", info.Results)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, "state", "journal")); err != nil { // as on another gateway
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(b.dir, "state", "pipelines")); err != nil {
		t.Fatal(err)
	}
	b.text = right
	b.start()
	err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File})
	if err == nil || !strings.Contains(err.Error(), "--accept-gap") {
		t.Fatalf("%v", err)
	}
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File, AcceptGap: true}); err != nil {
		t.Fatal(err)
	}
	b.put(96, 129)
	s := b.await("delivery", at(129)) // positions go on behind those in the state
	if g := s.Pipelines[0].Sinks[0].Generation; g != 2 {
		t.Errorf("generation %d", g)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 129})
	b.wantCounts(12)
}

// TestFailedSavepointLeavesThePipelineRunning: nothing of that name, and the records go on.
func TestFailedSavepointLeavesThePipelineRunning(t *testing.T) {
	b := benchAt(t, 50)
	if err := os.WriteFile(filepath.Join(b.dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.agent.StopWithSavepoint(t.Context(), "p", api.SavepointOptions{Pipeline: "p", Dir: filepath.Join(b.dir, "plain")}); err == nil {
		t.Fatal("made below a file")
	}
	b.put(51, 100)
	b.await("more", at(100))
	b.halt()
	b.wantIDs("p", [2]int{1, 100})
}
