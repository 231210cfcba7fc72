package cases

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// step23 is an operator of a config of the case.
type step23 struct{ ID, Was, Kind string }

// versions23 reads the configs v1 to v6.
func versions23(t *testing.T) map[int][]step23 {
	t.Helper()
	b, err := os.ReadFile("testdata/23.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	out := map[int][]step23{}
	for line := range bytes.Lines(b) {
		var c struct {
			Op  string
			V   int
			Ops []step23
		}
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		if c.Op == "config" {
			out[c.V] = c.Ops
		}
	}
	return out
}

// body23 writes a config as a user would: the steps one behind the other.
func body23(steps []step23) string {
	b, from := &strings.Builder{}, "in"
	fmt.Fprint(b, "sources:\n  in: {mqtt: {broker: local, topic: \"in/{k}\"}, time: {field: t, unit: ms}, fields: {t: int}}\npipelines:\n  p:\n    start: earliest\n"+
		"    checkpoint: {interval: 100ms}\n    steps:\n")
	for _, s := range steps {
		was := ""
		if s.Was != "" {
			was = ", was: " + s.Was
		}
		fmt.Fprintf(b, "      - {uid: %s%s, from: %s, %s}\n", s.ID, was, from, map[string]string{
			"dedup": "dedup: {key: [k]}, ttl: never", "tumbling": "by: [k], window: {tumbling: 5m}, aggregate: {n: count()}", "map": "select: {k: k, twice: n + n}"}[s.Kind])
		from = s.ID
	}
	fmt.Fprintf(b, "    sinks:\n      - {uid: out, from: %s, file: {path: out.jsonl}}\n", from)
	return b.String()
}

// TestCase23_OtherPlansOnOneSavepoint: what would lose state is refused and names the step, by weir plan and by the restore; the savepoint stays as it is; a step
// under a new name has its state.
func TestCase23_OtherPlansOnOneSavepoint(t *testing.T) {
	versions := versions23(t)
	s := newSite(t, body23(versions[1]))
	s.startReady()
	s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225600000}`))
	s.handled()
	config := filepath.Join(s.dir, "weir.yaml")
	run := func(args ...string) (string, int) {
		out, err := exec.Command(weir, args...).CombinedOutput()
		if exit := (&exec.ExitError{}); errors.As(err, &exit) {
			return string(out), exit.ExitCode()
		}
		s.must(err)
		return string(out), 0
	}
	if out, code := run("pipeline", "stop", "p", "--savepoint", "-c", config); code != 0 {
		t.Fatalf("stop: %d %s", code, out)
	}
	found, err := filepath.Glob(filepath.Join(s.dir, "state/savepoints/*.savepoint"))
	if err != nil || len(found) != 1 {
		t.Fatalf("savepoints %v, %v", found, err)
	}
	savepoint := found[0]
	before, err := os.ReadFile(savepoint)
	s.must(err)
	s.must(s.agent.Stop(patience))
	write := func(v int) {
		s.body = body23(versions[v])
		text, err := os.ReadFile(config)
		s.must(err)
		head, _, _ := strings.Cut(string(text), "sources:")
		s.must(os.WriteFile(config, []byte(head+s.body), 0o644))
	}
	refused := func(v int) { // the restore is asked for while no agent runs: the start refuses it
		t.Helper()
		if out, code := run("savepoint", "restore", "p", savepoint, "-c", config); code != 0 {
			t.Fatalf("v%d: restore: %d %s", v, code, out)
		}
		s.start()
		s.eventually("the restore is refused", func(st api.Status) bool {
			p := st.Pipelines[0]
			return p.State == "failed" && strings.Contains(p.Error, "dd") && strings.Contains(p.Error, "--allow-dropped-state")
		})
		s.must(s.agent.Stop(patience))
	}
	for v, want := range map[int]struct {
		code  int
		words []string
	}{2: {7, []string{"dd", "drop"}}, 3: {6, []string{"keep"}}, 4: {6, []string{"rename", "was dd"}}, 5: {7, []string{"dd", "it was dedup"}}, 6: {6, []string{"keep"}}} {
		write(v)
		out, code := run("plan", config, savepoint)
		if code != want.code {
			t.Errorf("v%d: exit %d, want %d\n%s", v, code, want.code, out)
		}
		for _, w := range want.words {
			if !strings.Contains(out, w) {
				t.Errorf("v%d: no %q in\n%s", v, w, out)
			}
		}
		if code == 7 {
			refused(v)
		}
	}
	if after, err := os.ReadFile(savepoint); err != nil || sha256.Sum256(after) != sha256.Sum256(before) {
		t.Errorf("the savepoint was changed: %v", err)
	}
	write(4)
	if out, code := run("savepoint", "restore", "p", savepoint, "-c", config); code != 0 {
		t.Fatalf("restore of v4: %d %s", code, out)
	}
	s.startReady()
	s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225601000}`)) // known to dd, so to dd2
	s.broker.Publish("in/b", 1, false, []byte(`{"t":1767226200000}`)) // ends the window
	s.eventually("the window is delivered", func(st api.Status) bool { return st.Pipelines[0].Sinks[0].Confirmed >= 1 })
	out, err := os.ReadFile(filepath.Join(s.dir, "files/out.jsonl"))
	if err != nil || !strings.Contains(string(out), `"k":"a","n":1`) {
		t.Errorf("%s, %v: want one reading of a", out, err)
	}
	s.stop()
}
