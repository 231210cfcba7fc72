package agent

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
	"github.com/weirstream/weir/store/pebblekv"
)

// worn makes a state_dir with a pipeline for each store, some checkpoints, results that wait, a savepoint, and stops the agent.
func worn(t *testing.T, pebble bool) *bench {
	pipelines := pipelineNamed("p", "log") + pipelineNamed("q", "bbolt")
	if pebble {
		pipelines += strings.Replace(pipelineNamed("r", "pebble"), "    steps:", "    state: {backend: pebble, memory: 4MiB}\n    steps:", 1)
	}
	// Pipelines of one plan cannot be told apart when the registry is gone.
	pipelines = strings.Replace(strings.Replace(pipelines, "tumbling: 10ms", "tumbling: 11ms", 1), "tumbling: 10ms", "tumbling: 12ms", 1)
	b := newBench(t, pipelines)
	b.start()
	for n := 1; n <= 5; n++ {
		b.put(20*(n-1)+1, 20*n)
		b.await("delivery", func(s *api.Status) bool {
			return !slices.ContainsFunc(s.Pipelines, func(p api.PipelineStatus) bool { return p.Position < uint64(20*n) || p.State != "running" }) && settled(s)
		})
		for _, s := range b.agent.all() {
			if _, err := b.agent.TriggerCheckpoint(t.Context(), s.name); err != nil {
				t.Fatal(err)
			}
		}
	}
	b.savepoint(false)
	b.halt()
	return b
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.RemoveAll(to); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// harm changes one file: bits, a page of zeros, its end, or all of it.
func harm(t *testing.T, rng *rand.Rand, dir string) (what string) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && filepath.Base(path) != "lock" {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	file := files[rng.IntN(len(files))]
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	used := len(strings.TrimRight(string(b), "\x00")) // where something stands
	at := 0
	if used > 0 {
		at = rng.IntN(used)
	}
	what = []string{"a bit", "a page", "the end", "all"}[rng.IntN(4)]
	switch {
	case what == "all":
		err = os.Remove(file)
	case what == "the end":
		err = os.Truncate(file, int64(at))
	case used == 0:
		return "nothing"
	default:
		if what == "a bit" {
			b[at] ^= 1 << rng.IntN(8)
		} else {
			clear(b[at/4096*4096 : min(at/4096*4096+4096, len(b))])
		}
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	rel, _ := filepath.Rel(dir, file)
	return what + " of " + rel
}

// outcome starts the agent over the directory: what state each pipeline comes to, and how many older checkpoints were taken.
func (b *bench) outcome() (states map[string]string, passed int, err error) {
	b.t.Helper()
	a, err := New(b.parse(), b.options)
	if err != nil {
		return nil, 0, err
	}
	if err := a.Close(); err != nil {
		return nil, 0, err
	}
	b.start()
	s := b.await("each pipeline runs or has failed", func(s *api.Status) bool {
		return len(s.Pipelines) > 0 && !slices.ContainsFunc(s.Pipelines, func(p api.PipelineStatus) bool { return p.State != "running" && p.State != "failed" })
	})
	states = map[string]string{}
	for _, p := range s.Pipelines {
		states[p.Name] = p.State
	}
	for _, sv := range b.agent.all() {
		if at := sv.running(); at != nil {
			passed += len(at.fallbacks)
		}
	}
	b.stop()
	if err := <-b.done; err != nil {
		b.t.Log(err)
	}
	return states, passed, nil
}

// TestRandomDamage: a check finds what a start would stumble over and changes nothing; a repair leaves a directory that the agent starts from, or says why not.
func TestRandomDamage(t *testing.T) {
	rounds := 40
	if testing.Short() {
		rounds = 10
	}
	const seed = 7
	rng := rand.New(rand.NewPCG(seed, 1))
	b := worn(t, pebblekv.Built)
	state, good := filepath.Join(b.dir, "state"), filepath.Join(t.TempDir(), "good")
	copyDir(t, state, good)
	found, repaired := 0, 0
	for round := range rounds {
		copyDir(t, good, state)
		what := harm(t, rng, state)
		before := sumsBelow(t, state)
		report, err := Check(t.Context(), b.parse(), false)
		if err != nil {
			t.Errorf("round %d, %s: %v", round, what, err)
			continue
		}
		after := sumsBelow(t, state)
		delete(before, filepath.Join(state, "lock"))
		delete(after, filepath.Join(state, "lock"))
		if !maps.Equal(before, after) {
			t.Errorf("round %d, %s: a check changed the directory", round, what)
		}
		fixed, err := Check(t.Context(), b.parse(), true)
		if err != nil {
			t.Errorf("round %d, %s: repair: %v", round, what, err)
			continue
		}
		found += min(len(report.Damage), 1)
		repaired += min(len(fixed.Repaired), 1)
		stops := strings.Join(fixed.Stops, "\n")
		states, passed, err := b.outcome()
		if err != nil && !strings.Contains(stops, "the agent does not start") {
			t.Errorf("round %d, %s: the agent does not start: %v; the repair said %+v", round, what, err, fixed)
		}
		for name, state := range states {
			if says := strings.Contains(stops, fmt.Sprintf("pipeline %s does not start", name)); says != (state == "failed") {
				t.Errorf("round %d, %s: pipeline %s is %s; the repair said %+v", round, what, name, state, fixed)
			}
		}
		if passed > 0 {
			t.Errorf("round %d, %s: a start passes over %d checkpoints that the repair left: %+v", round, what, passed, fixed)
		}
		if len(report.Damage)+len(report.Stops) == 0 && (len(fixed.Repaired)+len(fixed.Stops) > 0) {
			t.Errorf("round %d, %s: found nothing, yet %+v", round, what, fixed)
		}
	}
	t.Logf("seed %d: damage found in %d of %d rounds, something repaired in %d", seed, found, rounds, repaired)
	if found < rounds/4 {
		t.Errorf("damage was found in %d rounds only", found)
	}
}

// TestARepairIsCutShort: at every sync of it; a second repair ends it, and nothing that counts is lost.
func TestARepairIsCutShort(t *testing.T) {
	b := worn(t, false) // Pebble waits for a disk that is gone
	state, spoilt := filepath.Join(b.dir, "state"), filepath.Join(t.TempDir(), "spoilt")
	id, err := statedir.ParseUUID(b.agent.registry.UUID("p"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(state, "pipelines", id.String())
	for name, text := range map[string]string{
		filepath.Join(state, "pipelines.json"):                           "{",
		filepath.Join(dir, statedir.LastRunFile):                         "[",
		filepath.Join(dir, inheritedFile):                                "[",
		filepath.Join(dir, "catalog.db"):                                 "no bbolt",
		filepath.Join(restore.SavepointDir(b.parse()), "torn.savepoint"): "\xd9\xd9\xf7" + strings.Repeat("x", 99),
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	copyDir(t, state, spoilt)
	cuts := 0
	for n := 1; n < 60; n++ {
		copyDir(t, spoilt, state)
		dying := disktest.NewFaulty(disk.OS)
		dying.KillAtSync(n)
		first, err := check(t.Context(), b.parse(), true, dying)
		if err != nil {
			cuts++
		}
		again, err := Check(t.Context(), b.parse(), true)
		if err != nil || len(again.Stops) > 0 {
			t.Fatalf("cut at sync %d: %v, %+v", n, err, again)
		}
		if n == 1 || n%7 == 0 {
			states, passed, err := b.outcome()
			if err != nil || passed > 0 || slices.Contains(slices.Collect(maps.Values(states)), "failed") {
				t.Errorf("cut at sync %d: %v, %d passed over, %v", n, states, passed, err)
			}
			if b.agent.registry.UUID("p") != dashed(id.String()) {
				t.Errorf("cut at sync %d: pipeline p is %s now, and was %s", n, b.agent.registry.UUID("p"), id)
			}
		}
		for _, pattern := range []string{"pipelines.json.aside-*", "pipelines/*/lastrun.json.aside-*", "pipelines/*/inherited.json.aside-*", "pipelines/*/catalog.db.bad-*", "savepoints/torn.savepoint.aside"} {
			if kept, _ := filepath.Glob(filepath.Join(state, pattern)); len(kept) == 0 {
				t.Errorf("cut at sync %d: what was damaged is not kept as %s", n, pattern)
			}
		}
		if last, err := Check(t.Context(), b.parse(), false); err != nil || len(last.Stops) > 0 {
			t.Errorf("cut at sync %d: %v, %+v", n, err, last)
		}
		if first != nil && len(first.Repaired) >= 5 {
			break // it was not cut
		}
	}
	if cuts < 3 {
		t.Errorf("the repair was cut %d times", cuts)
	}
}

// TestARegistryIsNotGuessed: two pipelines with one plan cannot be told apart.
func TestARegistryIsNotGuessed(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log")+pipelineNamed("q", "log"))
	b.start()
	b.put(1, 20)
	b.await("delivery", func(s *api.Status) bool {
		return settled(s) && s.Pipelines[0].Position >= 20 && s.Pipelines[1].Position >= 20
	})
	b.halt()
	name := filepath.Join(b.dir, "state", "pipelines.json")
	if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Check(t.Context(), b.parse(), true)
	if err != nil || len(r.Stops) != 1 || !strings.Contains(r.Stops[0], "p and q have one plan") {
		t.Errorf("%+v, %v", r, err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "{" {
		t.Errorf("%q, %v", text, err)
	}
}
