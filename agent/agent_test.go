package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/pebblekv"
)

func TestAgentStopsAndGoesOn(t *testing.T) {
	large := strings.Replace(pipelineNamed("p", "pebble"), "    steps:", "    state: {backend: pebble, memory: 4MiB}\n    steps:", 1)
	pipelines := map[string]string{"log": pipelineNamed("p", "log"), "bbolt": pipelineNamed("p", "bbolt")}
	if pebblekv.Built {
		pipelines["pebble"] = large
		pipelines["log-of-pebble"] = strings.Replace(large, "store: pebble", "store: log", 1)
	}
	for name, text := range pipelines {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, text)
			b.start()
			b.put(1, 500)
			b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 500 })
			b.halt()
			b.start()
			b.put(501, 700)
			s := b.await("delivery after a restart", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 700 })
			if got := s.Pipelines[0].Sources[0].Received; got != 700 {
				t.Errorf("ledger counts %d records, want 700: a restart counts nothing twice", got)
			}
			b.halt()
			b.wantIDs("p", [2]int{1, 700})
		})
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	defer b.halt()
	if _, err := New(b.parse(), b.options); !errors.Is(err, statedir.ErrLocked) {
		t.Fatalf("a second agent on the same state_dir: %v, want ErrLocked", err)
	}
}

// TestCase20_NewPipelineOfTheSameNameStartsEmpty: deleted and made again, a pipeline has another identity.
func TestCase20_NewPipelineOfTheSameNameStartsEmpty(t *testing.T) {
	b := newBench(t, pipelineNamed("r1", "log"))
	with := b.text
	b.start()
	b.put(1, 20)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 20 })
	first := b.agent.registry.UUID("r1")
	b.halt()
	b.text = strings.Replace(with, "  r1:", "  other:", 1)
	b.start()
	b.halt()
	b.text = with
	b.start()
	s := b.await("start", settled)
	b.halt()
	if again := b.agent.registry.UUID("r1"); again == first || again == "" {
		t.Errorf("identity %q again", again)
	}
	if s.Pipelines[0].Checkpoint.ID > 2 {
		t.Errorf("it began with checkpoint %d: state was inherited", s.Pipelines[0].Checkpoint.ID)
	}
}

// TestRule21_StartBelowTheJournalIsAReportedGap: never a silent jump.
func TestRule21_StartBelowTheJournalIsAReportedGap(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, 100)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
	b.halt()
	first := b.letGo(40_000)

	b.start()
	s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if e := s.Pipelines[0].Error; !strings.Contains(e, fmt.Sprintf("to %d are gone", first-1)) || !strings.Contains(e, "--accept-gap p") {
		t.Errorf("the refusal does not name the range and the way out: %s", e)
	}
	b.halt()

	b.options.AcceptGap = map[string]bool{"p": true}
	b.start()
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	kept, err := b.agent.Checkpoints("p")
	if err != nil || len(kept) == 0 {
		t.Fatalf("checkpoints: %v %v", kept, err)
	}
	for _, c := range kept {
		if pipeline.Position(c.Position) < first-1 {
			t.Errorf("checkpoint %d at %d is still there: a restart would fall behind the gap, %d", c.ID, c.Position, first)
		}
	}
	if b.agent.acceptGap.given("p") {
		t.Error("the permission is good for another gap")
	}
	b.put(50_001, 50_100)
	b.await("delivery behind the gap", func(s *api.Status) bool {
		return settled(s) && s.Pipelines[0].Lag == 0 && s.Pipelines[0].Position > uint64(first)
	})
	b.halt()
	b.options.AcceptGap = nil
	b.start() // the flag is for one start
	b.put(50_101, 50_120)
	b.await("delivery after another restart", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Sinks[0].Generation == 2 })
	b.halt()
	ids, generations := b.ids("p", "now")
	seen := map[int]bool{}
	for i, id := range ids {
		if seen[id] {
			t.Fatalf("%d arrived twice", id)
		}
		seen[id] = true
		if want := uint64(1); id <= 100 && generations[i] != want || id > 100 && generations[i] != 2 {
			t.Fatalf("%d is in generation %d", id, generations[i])
		}
	}
	for id := 50_001; id <= 50_120; id++ {
		if !seen[id] {
			t.Fatalf("%d is missing behind the gap", id)
		}
	}
}

// TestRule19_LagAboveItsLimitDetachesARunningPipeline: it fails and names why; started while its records are there it loses nothing,
// and the other pipeline never notices. on_full: hold keeps it and says so.
func TestRule19_LagAboveItsLimitDetachesARunningPipeline(t *testing.T) {
	slow := strings.NewReplacer(`"URL"`, `"http://127.0.0.1:9/weir"`, "uid: now,", "uid: now, max_bytes: 64KiB,", "start: earliest", "start: earliest\n    on_full: detach\n    lag_limit: 100KiB").Replace(pipelineNamed("slow", "log"))
	b := newBench(t, slow+pipelineNamed("p", "log"))
	b.text = strings.Replace(b.text, "segment: 256KiB", "segment: 256KiB, compress: false", 1)
	b.unkept = true
	b.start()
	b.put(1, 20_000)
	b.await("delivery of the other", func(s *api.Status) bool {
		return s.Pipelines[1].Position >= 20_000 && s.Pipelines[1].Sinks[0].Pending == 0
	})
	s := b.await("lag", func(s *api.Status) bool { return s.Pipelines[0].LagBytes > 100<<10 })
	if !strings.Contains(strings.Join(s.Problems, "\n"), "pipeline slow lags about") {
		t.Errorf("problems do not tell of the lag: %q", s.Problems)
	}
	b.agent.letGo(t.Context(), map[string]stall{}, time.Now())
	s = b.agent.Status()
	if p := s.Pipelines[0]; p.State != "failed" || !strings.Contains(p.Error, "lag_limit is 102400") {
		t.Errorf("%s: %s", p.State, p.Error)
	}
	if _, held := b.agent.journal.Stats().Holders[b.agent.holderName("slow")]; held {
		t.Error("it still holds the journal")
	}
	if err := b.agent.StartPipeline(t.Context(), "slow"); err != nil {
		t.Fatal(err)
	}
	b.await("start", func(s *api.Status) bool {
		return s.Pipelines[0].State == "running" && s.Pipelines[1].State == "running"
	})
	b.halt()
	b.wantIDs("p", [2]int{1, 20_000})
}

// TestRule21_LetGoWhileRunning ends in the same place as a start below the journal: started again, the pipeline names what is
// lost.
func TestRule21_LetGoWhileRunning(t *testing.T) {
	slow := strings.NewReplacer(`"URL"`, `"http://127.0.0.1:9/weir"`, "uid: now,", "uid: now, max_bytes: 64KiB,").Replace(pipelineNamed("slow", "log"))
	b := newBench(t, slow+pipelineNamed("p", "log"))
	b.text = strings.Replace(b.text, "segment: 256KiB", "segment: 256KiB, compress: false", 1)
	b.unkept = true
	b.start()
	for last := 5_000; last <= 30_000; last += 5_000 {
		b.put(last-4_999, last)
		b.await("delivery of the other", func(s *api.Status) bool { return s.Pipelines[1].Position >= uint64(last) })
		if _, err := b.agent.TriggerCheckpoint(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	moved := map[string]stall{"slow": {position: b.agent.journal.Stats().Holders[b.agent.holderName("slow")], since: time.Now().Add(-2 * space.RetainFailedDefault)}}
	holders := b.agent.holders(moved, time.Now())
	if got := space.LetGo(true, holders, space.RetainFailedDefault); len(got) != 1 || got[0] != "slow" {
		t.Fatalf("a full journal would let go of %v: %+v", got, holders)
	}
	if err := b.agent.all()[0].ask(t.Context(), command{fail: fmt.Errorf("%w: %w", errFinal, errLetGo)}); err != nil {
		t.Fatal(err)
	}
	b.agent.journal.Release(b.agent.holderName("slow"))
	if err := b.agent.journal.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first := b.agent.journal.First(); first < 5_000 {
		t.Fatalf("nothing was trimmed: first is %d", first)
	}
	if err := b.agent.StartPipeline(t.Context(), "slow"); err != nil {
		t.Fatal(err)
	}
	s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if e := s.Pipelines[0].Error; !strings.Contains(e, "are gone") || !strings.Contains(e, "--accept-gap slow") {
		t.Errorf("the refusal does not name the way out: %s", e)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 30_000})
}

// TestPositionsOfCheckpointsAreNeverGivenOutAgain, whatever became of the journal's end: else new records would lie where the
// pipeline has been, and be passed over in silence.
func TestPositionsOfCheckpointsAreNeverGivenOutAgain(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, 100)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
	b.halt()
	if err := os.RemoveAll(filepath.Join(b.dir, "state", "journal")); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.put(101, 150)
	b.await("delivery behind the loss", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 150 })
	b.halt()
	b.wantIDs("p", [2]int{1, 150})
}
