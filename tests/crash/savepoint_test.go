package crash

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
)

// saved: every commit mode of sinks, rows and windows.
const saved = `
pipelines:
  keep:
    start: earliest
    parallelism: PARALLEL
    checkpoint: {interval: 200ms}
    steps:
      - {uid: all, from: a, select: [id, k, ts, v]}
      - {uid: w, from: a, by: [k], window: {tumbling: 1s}, aggregate: {n: count(), sum: sum(v)}}
    sinks:
      - {uid: now-a, from: all, commit: immediate, http: {url: "URL"}}
      - {uid: later-a, from: all, http: {url: "URL"}}
      - {uid: win-now-a, from: w, commit: immediate, http: {url: "URL"}}
      - {uid: win-later-a, from: w, http: {url: "URL"}}
`

const savedStreams = 4

// changes of the plan, one behind the other, and again from the first: each takes over the state of what it replaces.
var changes = []func(config string) string{
	func(c string) string { // the window has another name
		return strings.NewReplacer("uid: w, was: w2, from: a", "uid: w2, was: w, from: a", "uid: w, from: a", "uid: w2, was: w, from: a", "from: w,", "from: w2,").Replace(c)
	},
	func(c string) string { // one step more on the way to the rows, or one less
		const whole, all = "- {uid: whole, from: a, filter: \"id >= 0\"}\n      - {uid: all, from: whole,", "- {uid: all, from: a,"
		if strings.Contains(c, whole) {
			return strings.Replace(c, whole, all, 1)
		}
		return strings.Replace(c, all, whole, 1)
	},
	func(c string) string { // and back to a name that was there before
		return strings.NewReplacer("uid: w2, was: w, from: a", "uid: w, was: w2, from: a", "from: w2,", "from: w,").Replace(c)
	},
}

// saver takes and restores savepoints while messages flow.
type saver struct {
	*stage
	s        *scenario
	made     []string // savepoints of the plan that runs now, oldest first
	changed  int
	restored int
	failed   int // commands that a kill cut short
}

// weir runs a command of the CLI.
func (v *saver) weir(args ...string) (string, error) {
	out, err := exec.Command(binary, append(args, "-c", filepath.Join(v.dir, "weir.yaml"))...).CombinedOutput()
	return string(out), err
}

// during runs a command and kills the agent in the middle of it, as often as not.
func (v *saver) during(args ...string) (string, error) {
	if v.random.IntN(2) == 0 {
		return v.weir(args...)
	}
	wait := time.Duration(v.random.IntN(120)) * time.Millisecond
	done := make(chan struct{})
	var out string
	var err error
	go func() { defer close(done); out, err = v.weir(args...) }()
	select {
	case <-done:
	case <-time.After(wait):
	}
	v.agent.Kill()
	v.kills++
	<-done
	v.startAgent()
	v.mustBeReady()
	if err != nil {
		v.failed++
	}
	return out, err
}

func (v *saver) mustBeReady() {
	v.t.Helper()
	if !v.readyWithin(rig.Patience) {
		v.dump()
		v.t.Fatal("the agent is not ready")
	}
	for deadline := time.Now().Add(rig.Patience); ; time.Sleep(20 * time.Millisecond) {
		s, ok := v.status()
		if ok && len(s.Pipelines) == 1 && s.Pipelines[0].State == "running" {
			return
		}
		if ok && s.failed() || time.Now().After(deadline) {
			v.dump()
			v.t.Fatal("the pipeline does not run")
		}
	}
}

// named gives the files there are of a name; each must be whole.
func (v *saver) named(name string) []string {
	v.t.Helper()
	files, err := filepath.Glob(filepath.Join(v.dir, "state", "savepoints", name+"*.savepoint"))
	v.must(err)
	for _, f := range files {
		if out, err := v.weir("savepoint", "verify", f); err != nil {
			v.t.Fatalf("a savepoint is there and not whole: %s", out)
		}
	}
	return files
}

// create: a kill leaves it whole or absent.
func (v *saver) create(n int) {
	v.mustBeReady()
	name := fmt.Sprintf("made%03d", n)
	out, err := v.during("savepoint", "create", "keep", "--name", name)
	files := v.named(name)
	if err == nil && len(files) != 1 {
		v.t.Fatalf("%d savepoints %s, it was said that it was made: %s", len(files), name, out)
	}
	v.made = append(v.made, files...)
}

// back restores an older savepoint of the plan that runs.
func (v *saver) back() {
	if len(v.made) == 0 {
		return
	}
	v.mustBeReady()
	file := v.made[max(0, len(v.made)-1-v.random.IntN(2))]
	out, err := v.during("savepoint", "restore", "keep", file)
	cut := func(text string) bool { return strings.Contains(out, text) } // how a call ends whose agent was killed
	if err != nil && !slices.ContainsFunc([]string{"EOF", "reset", "broken pipe", "stopping"}, cut) {
		v.dump()
		v.t.Fatalf("restore: %v\n%s", err, out)
	}
	v.mustBeReady()
	v.restored++
}

// change stops with a savepoint and goes on with another plan.
func (v *saver) change() {
	v.mustBeReady()
	name := fmt.Sprintf("last%03d", v.changed)
	if out, err := v.weir("pipeline", "stop", "keep", "--savepoint", "--name", name); err != nil {
		v.dump()
		v.t.Fatalf("stop: %v\n%s", err, out)
	}
	files := v.named(name)
	if len(files) != 1 {
		v.t.Fatalf("%d savepoints %s", len(files), name)
	}
	v.agent.Kill()
	v.kills++
	v.config = changes[v.changed%len(changes)](v.config)
	v.changed++
	if out, err := v.weir("savepoint", "restore", "keep", files[0]); err != nil {
		v.t.Fatalf("order the restore: %v\n%s", err, out)
	}
	v.startAgent()
	for range v.random.IntN(3) { // within the restore
		time.Sleep(time.Duration(v.random.IntN(150)) * time.Millisecond)
		v.agent.Kill()
		v.kills++
		v.startAgent()
	}
	v.mustBeReady()
	v.made = nil // of another plan
}

// TestSavepoints: savepoints are made while messages flow, older ones restored, plans changed through them, and the agent is killed within all of it.
func TestSavepoints(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s := savepoints()
	v := s.saving(5, 3, 2)
	if long() {
		s.messages, s.rate, s.kills, s.resets, s.receiverRestarts = 60_000, 1500, 20, 10, 4
		v = s.saving(60, 40, 3)
	}
	s.exact(t)
	t.Logf("%d restores of older savepoints, %d changed plans, %d commands cut short by a kill", v.restored, v.changed, v.failed)
}

// TestSavepointsFault: restores that leave records out must be found.
func TestSavepointsFault(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for range 6 {
		s := savepoints()
		s.messages, s.kills, s.receiverRestarts, s.env = 2_500, 0, 0, []string{"WEIR_FAULT=restore-late"}
		s.saving(4, 4, 0) // messages come between: what a restore leaves out is there, in most runs
		verdicts, _ := s.run(t)
		for _, v := range verdicts {
			if v.Lost+len(v.Wrong) > 0 {
				return
			}
		}
	}
	t.Error("nothing was found lost in six runs")
}

func savepoints() *scenario {
	return &scenario{qos: 1, messages: 6_000, rate: 800, kills: 2, resets: 1, receiverRestarts: 1, config: saved, streams: savedStreams, patience: rig.Patience}
}

// saving adds the savepoints to a run.
func (s *scenario) saving(creates, backs, plans int) *saver {
	v := &saver{s: s}
	s.more = func(st *stage, add func(n int, do func())) {
		v.stage = st
		n := 0
		add(creates, func() { n++; v.create(n) })
		add(backs, func() { v.back() })
		add(plans, func() { v.change() })
	}
	return v
}
