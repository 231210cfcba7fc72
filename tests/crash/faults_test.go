package crash

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// planted is a fault and the scenario that finds it. README.md names the tests for those that real processes meet too seldom.
type planted struct {
	fault string
	scenario
}

func plantedFaults() []planted {
	return []planted{
		{"ack-early", scenario{qos: 1, messages: 6_000, rate: 2000, kills: 8, config: passing, streams: 1}},
		// Ids come round within one process: after a kill the sweep would have emptied the table.
		{"dedup-id-alone", scenario{qos: 1, messages: 72_000, rate: 25_000, resets: 3, config: passing, streams: 1}},
		{"retain-newest", scenario{qos: 1, messages: 24_000, rate: 5000, kills: 6, config: trimming, streams: 1, damage: true}},
		{"release-early", scenario{qos: 1, messages: 6_000, rate: 1500, kills: 10, config: drawing, streams: 2}},
		{"merge-by-arrival", scenario{qos: 1, messages: 6_000, rate: 2000, kills: 6, config: merging, streams: 1}},
		{"forget-dirty", scenario{qos: 1, messages: 9_000, rate: 1800, kills: 12, config: windowing, streams: 2, env: []string{"WEIR_ABORT_EVERY=3"}}},
	}
}

// TestPlantedFaults shows that the run can fail: each scenario is exact without its fault, and not with it.
func TestPlantedFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	for _, p := range plantedFaults() {
		t.Run(p.fault, func(t *testing.T) {
			t.Run("without", func(t *testing.T) {
				s := p.scenario
				s.patience = time.Minute
				s.exact(t)
			})
			t.Run("with", func(t *testing.T) {
				for range 3 {
					if p.found(t) {
						return
					}
				}
				t.Error("the planted fault was not found in three runs")
			})
		})
	}
}

// found runs the scenario with the fault.
func (p *planted) found(t *testing.T) bool {
	s := p.scenario
	s.env = append([]string{"WEIR_FAULT=" + p.fault}, s.env...)
	s.patience = 12 * time.Second
	verdicts, problems := s.run(t)
	bad := len(verdicts) < s.streams
	for _, v := range verdicts {
		t.Log(v)
		bad = bad || !v.ok()
	}
	t.Log(problems)
	return bad
}

// damageNewest breaks the end of each pipeline's checkpoint log, where the newest manifest lies, and tells how many it broke.
func damageNewest(t *testing.T, pipelines string) (n int) {
	logs, err := filepath.Glob(filepath.Join(pipelines, "*", "checkpoints", "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range logs {
		if damageLast(t, dir) {
			n++
		}
	}
	return n
}

// damageFrom leaves the segment's head and the first manifests alone: there must be something to fall back to.
const damageFrom = 1024

// damageLast flips the last byte that is not zero in the segment that was written last.
func damageLast(t *testing.T, dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false // not made yet
	}
	var name string
	var newest time.Time
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(newest) {
			name, newest = filepath.Join(dir, e.Name()), info.ModTime()
		}
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return false
	}
	last := len(b) - 1
	for last >= 0 && b[last] == 0 {
		last--
	}
	if last < damageFrom {
		return false // the first checkpoint may be the only one
	}
	b[last] ^= 0x5a
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestReleaseBuildHasNoFaults: nothing in it reads the variables that plant them.
func TestReleaseBuildHasNoFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the agent; not in -short")
	}
	file := filepath.Join(t.TempDir(), "weir")
	cmd := exec.Command("go", "build", "-o", file, "github.com/weirstream/weir/agent/cmd/weir")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build weir: %v\n%s", err, out)
	}
	for build, want := range map[string]bool{file: false, binary: true} {
		b, err := os.ReadFile(build)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"WEIR_FAULT", "WEIR_ABORT_EVERY", "WEIR_ANCHOR_EVERY"} {
			if got := bytes.Contains(b, []byte(name)); got != want {
				t.Errorf("%s reads %s: %v, want %v", build, name, got, want)
			}
		}
	}
}
