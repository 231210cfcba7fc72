package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/log"
)

const savepointConfig = `
gateway: cli
state_dir: DIR/state
security: {file_root: DIR/files}
brokers:
  b: {url: "tcp://127.0.0.1:9"}
sources:
  s: {mqtt: {broker: b, topic: "a/{k}"}}
pipelines:
  p:
    steps:
      - {uid: w, from: s, by: [k], deadband: {value: x, threshold: 1}}
    sinks:
      - {uid: out, from: w, file: {path: out.jsonl}}
`

// oneTable is the state of step w.
type oneTable struct{}

func (oneTable) Sinks() []pipeline.SinkMark  { return nil }
func (oneTable) Position() pipeline.Position { return 0 }
func (oneTable) Entries(_, _ string, f func(key, sub, val []byte) error) (state.Spec, bool, error) {
	for _, k := range []string{"a", "b", "c"} {
		if err := f([]byte(k), nil, []byte("value of "+k)); err != nil {
			return state.Spec{}, true, err
		}
	}
	return state.Spec{}, true, nil
}

// writeSavepoint makes a savepoint of the pipeline of a config.
func writeSavepoint(t *testing.T, c *cli, name string) string {
	t.Helper()
	cfg, err := config.Load(c.config)
	if err != nil {
		t.Fatal(err)
	}
	g := cfg.Pipelines[0].Graph
	h := savepoint.Head{
		Writer: "test", Gateway: "cli", Pipeline: "p", UUID: make([]byte, 16), PlanHash: g.Hash[:], Plan: []byte(plan.Meaning(g)), Position: 12,
		Tables: []savepoint.Table{savepoint.TableOf("w", state.Spec{Name: "last", Kind: state.Value, Type: "ops.deadband", Version: 1})},
		Sinks:  []savepoint.Sink{{UID: "out", Generation: 1, Seq: 1}},
	}
	for _, s := range g.Steps {
		h.Steps = append(h.Steps, savepoint.Step{UID: s.UID, Kind: s.Kind, Params: s.Params, Behaviour: uint64(s.Behaviour), Stateful: s.Stateful})
	}
	path := filepath.Join(c.dir, "state", "savepoints", name+".savepoint")
	_, err = savepoint.Create(t.Context(), disk.OS, path, savepoint.Content{Head: h, State: oneTable{}, Results: func(_ *savepoint.Sink, each func(*pipeline.Result) error) error {
		return each(&pipeline.Result{Seq: 1, Last: 1, Kind: pipeline.ResultData, Payload: []byte(`{"x":1}`)})
	}}, log.NewCodec(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// shows runs a command that works and looks for words in what it prints.
func (c *cli) shows(args []string, words ...string) string {
	c.t.Helper()
	code, out, message := c.run(args...)
	if code != 0 {
		c.t.Fatalf("%v: exit %d: %s", args, code, message)
	}
	for _, w := range words {
		if !strings.Contains(out, w) {
			c.t.Errorf("%v prints\n%s\nwithout %q", args, out, w)
		}
	}
	return out
}

// refused runs a command that does not.
func (c *cli) refused(code int, args []string, words ...string) {
	c.t.Helper()
	got, _, message := c.run(args...)
	if got != code {
		c.t.Errorf("%v: exit %d, want %d: %s", args, got, code, message)
	}
	for _, w := range words {
		if !strings.Contains(message, w) {
			c.t.Errorf("%v says %q without %q", args, message, w)
		}
	}
}

func TestSavepointFiles(t *testing.T) {
	c := newCLI(t, savepointConfig)
	path := writeSavepoint(t, c, "s1")
	c.shows([]string{"savepoint", "ls"}, "PIPELINE", path, "12")
	c.shows([]string{"savepoint", "verify", path}, "whole")
	c.refused(exitFailed, []string{"savepoint", "restore", "p", path, "--claim", "--no-claim"}, "none of the others can be")
	c.shows([]string{"savepoint", "inspect", path}, "pipeline p of cli", "w/last", "3 entries", "1 results that the upstream did not hold", "weir plan 1")
	var list []api.SavepointInfo
	if err := json.Unmarshal([]byte(c.shows([]string{"savepoint", "ls", "-o", "json"})), &list); err != nil || len(list) != 1 || list[0].Results != 1 {
		t.Errorf("%+v, %v", list, err)
	}

	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	torn := filepath.Join(filepath.Dir(path), "torn.savepoint")
	if err := os.WriteFile(torn, b, 0o600); err != nil {
		t.Fatal(err)
	}
	c.refused(exitFailed, []string{"savepoint", "verify", path, torn}, torn, "sha256 mismatch")
	c.refused(exitFailed, []string{"savepoint", "ls"}, torn)
	c.refused(exitFailed, []string{"savepoint", "restore", "p", torn}, "sha256 mismatch")
	c.refused(exitFailed, []string{"savepoint", "verify", c.config}, "not a savepoint")
	c.refused(exitFailed, []string{"savepoint", "restore", "p", path}, "no such pipeline", "must have run")
	c.refused(exitNotRunning, []string{"savepoint", "create", "p"})
	c.refused(exitNotRunning, []string{"pipeline", "stop", "p", "--savepoint"})
	c.refused(exitUsage, []string{"savepoint", "rm", c.config}, ".savepoint")
	c.shows([]string{"savepoint", "rm", torn})
	c.shows([]string{"savepoint", "ls"})
}

func TestStateOfASavepoint(t *testing.T) {
	c := newCLI(t, savepointConfig)
	path := writeSavepoint(t, c, "s1")
	c.shows([]string{"state", "ls", path}, "w", "last", "3")
	c.shows([]string{"state", "show", path, "w"}, `last "b" "" "value of b"`)
	c.shows([]string{"state", "show", path, "w", "--limit", "1"}, "2 more")
	c.refused(exitUsage, []string{"state", "show", path, "none"}, `"none"`)
	text := c.shows([]string{"state", "export", path}, `"head"`, `"result"`, `"entry"`)

	copied := filepath.Join(c.dir, "copy.savepoint")
	cmd := root()
	cmd.SetIn(strings.NewReader(text))
	cmd.SetOut(&bytes.Buffer{})
	cmd.SetArgs([]string{"state", "import", copied, "-c", c.config})
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again := c.shows([]string{"state", "export", copied}); again != text {
		t.Error("import and export differ")
	}
	renamed := filepath.Join(c.dir, "renamed.savepoint")
	c.shows([]string{"state", "rename-uid", path, renamed, "w=z"}, "3 entries")
	c.shows([]string{"state", "ls", renamed}, "z")
	c.refused(exitFailed, []string{"state", "rename-uid", path, renamed, "w=z"}, "exists")
	c.refused(exitUsage, []string{"state", "rename-uid", path, renamed + "2", "w"}, "OLD=NEW")
	dropped := filepath.Join(c.dir, "dropped.savepoint")
	c.shows([]string{"state", "drop", path, dropped, "w"}, "0 entries", "1 results")
}

func TestPlanTellsWhatBecomesOfTheState(t *testing.T) {
	c := newCLI(t, savepointConfig)
	path := writeSavepoint(t, c, "s1")
	changed := func(old, new string) string {
		b, err := os.ReadFile(c.config)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Replace(string(b), old, new, 1)
		if text == string(b) {
			t.Fatalf("no %q in the config", old)
		}
		name := filepath.Join(c.dir, "new.yaml")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	c.shows([]string{"plan", c.config, path}, "w", "keep", "3")
	for _, change := range []struct {
		old, new string
		code     int
		words    []string
	}{
		{"    sinks:", "      - {uid: n, from: s, by: [k], changed: {value: x}}\n    sinks:\n      - {uid: more, from: n, file: {path: more.jsonl}}", exitChanges, []string{"n", "start empty", "keep"}},
		{"uid: w, from: s", "uid: v, was: w, from: s", exitUsage, nil}, // the sink reads w
		{`"a/{k}"}}`, `"a/{k}"}, fields: {x: float}}`, exitChanges, []string{"source s: column x was not declared and is float", "keep"}},
		{"threshold: 1", "threshold: 2", exitDrops, []string{"w", "incompatible", "became"}},
		{"by: [k], deadband: {value: x, threshold: 1}", "by: [k], changed: {value: x}", exitDrops, []string{"it was deadband and is changed"}},
	} {
		name := changed(change.old, change.new)
		code, out, message := c.run("plan", name, path)
		if code != change.code {
			t.Errorf("%s: exit %d, want %d: %s\n%s", change.new, code, change.code, message, out)
		}
		for _, w := range change.words {
			if !strings.Contains(out, w) {
				t.Errorf("%s: prints\n%s\nwithout %q", change.new, out, w)
			}
		}
	}
	both := strings.NewReplacer("uid: w, from: s", "uid: v, was: w, from: s", "from: w, file", "from: v, file")
	b, err := os.ReadFile(c.config)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(c.dir, "renamed.yaml")
	if err := os.WriteFile(name, []byte(both.Replace(string(b))), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, message := c.run("plan", name, path); code != exitChanges || !strings.Contains(out, "rename") || !strings.Contains(out, "was w") {
		t.Errorf("exit %d %s\n%s", code, message, out)
	}
}
