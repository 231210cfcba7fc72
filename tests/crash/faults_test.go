package crash

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// planted is a fault and the scenario that finds it. README.md has their table.
type planted struct {
	fault string
	scenario
}

func plantedFaults() []planted {
	return []planted{
		{"ack-early", scenario{qos: 1, messages: 6_000, rate: 2000, kills: 8, config: passing, streams: 1}},
		// Ids come round within one process: after a kill the sweep would have emptied the table.
		{"dedup-id-alone", scenario{qos: 1, messages: 72_000, rate: 25_000, resets: 3, config: passing, streams: 1}},
		{"retain-newest", scenario{qos: 1, messages: 24_000, rate: 5000, kills: 6, config: trimming, streams: 1, damage: damageNewest}},
		{"prune-after-trim", scenario{qos: 1, messages: 45_000, rate: 5000, kills: 4, config: pruning, streams: 1, damage: damageAllButOldest()}},
		{"release-early", scenario{qos: 1, messages: 6_000, rate: 1500, kills: 10, config: drawing, streams: 2}},
		{"merge-by-arrival", scenario{qos: 1, messages: 6_000, rate: 2000, kills: 6, config: merging, streams: 1}},
		{"forget-dirty", scenario{qos: 1, messages: 9_000, rate: 1200, kills: 6, config: windowing, streams: 2, env: []string{"WEIR_ABORT_EVERY=2"}}},
		{"forget-dirty", scenario{name: "engine", qos: 1, messages: 6_000, rate: 1500, kills: 10, config: engine, streams: engineStreams, judge: judgeEngine, env: []string{"WEIR_ABORT_EVERY=2"}}},
		{"ack-before-sync", scenario{qos: 1, messages: 6_000, rate: 1500, powerCuts: 6, syncDelay: 60 * time.Millisecond, config: passing, streams: 1}},
		{"tail-not-synced", scenario{qos: 1, messages: 6_000, rate: 800, kills: 4, syncDelay: 200 * time.Millisecond, strike: (*stage).cutTail, ready: (*stage).tailUnsynced, config: telling, streams: 2}},
		{"ledger-miscount", scenario{qos: 1, messages: 3_000, rate: 1500, kills: 2, config: passing, streams: 1}},
		{"open-highest", scenario{qos: 1, messages: 6_000, rate: 1000, receiver: scatteredKind, receiverRestarts: 2, kills: 6, strike: (*stage).killBoth, config: passing, streams: 1}},
	}
}

// faultRuns bounds how often a run with a fault is repeated until a strike falls where the fault shows: mostly the first does. Each has another chance, so that even one in
// four fails to find it once in 300 tests.
const faultRuns = 20

// TestPlantedFaults shows that the run can fail: each scenario is exact without its fault, and not with it.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for _, p := range plantedFaults() {
		t.Run(strings.TrimSuffix(p.fault+"-"+p.name, "-"), func(t *testing.T) {
			t.Parallel()
			t.Run("without", func(t *testing.T) {
				t.Parallel()
				s := p.scenario
				s.patience = rig.Patience
				s.exact(t)
			})
			t.Run("with", func(t *testing.T) {
				t.Parallel()
				for n := range faultRuns {
					if p.found(t) {
						t.Logf("found in run %d", n+1)
						return
					}
				}
				t.Errorf("the planted fault was not found in %d runs", faultRuns)
			})
		})
	}
}

// found runs the scenario with the fault.
func (p *planted) found(t *testing.T) bool {
	s := p.scenario
	s.env = append([]string{"WEIR_FAULT=" + p.fault}, s.env...)
	s.receiverEnv = []string{"WEIR_FAULT=" + p.fault}
	s.patience = 30 * time.Second // what is lost never comes
	verdicts, problems := s.run(t)
	bad := len(verdicts) < s.streams
	for _, v := range verdicts {
		t.Log(v)
		bad = bad || !v.OK()
	}
	for _, p := range problems {
		bad = bad || strings.Contains(p, "the ledger does not match")
	}
	t.Log(problems)
	return bad
}

// TestReleaseBuildHasNoFaults: nothing in it reads the variables that plant them.
func TestReleaseBuildHasNoFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent; not in -short")
	}
	t.Parallel()
	file := filepath.Join(t.TempDir(), "weir")
	if err := rig.BuildWeir(file); err != nil {
		t.Fatal(err)
	}
	for build, want := range map[string]bool{file: false, binary: true} {
		b, err := os.ReadFile(build)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"WEIR_FAULT", "WEIR_ABORT_EVERY", "WEIR_POWERCUT", "WEIR_SYNC_DELAY", "WEIR_ANCHOR_EVERY", "WEIR_DIE_AT"} {
			if got := bytes.Contains(b, []byte(name)); got != want {
				t.Errorf("%s reads %s: %v, want %v", build, name, got, want)
			}
		}
	}
}
