package cases

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/api"
)

// run runs a command of the CLI on the site's config.
func (s *site) run(args ...string) (out string, code int) {
	s.t.Helper()
	b, err := exec.Command(weir, append(args, "-c", filepath.Join(s.dir, "weir.yaml"))...).CombinedOutput()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return string(b), exit.ExitCode()
	}
	s.must(err)
	return string(b), 0
}

// text is the site's config with another body.
func (s *site) text(body string) string {
	s.t.Helper()
	b, err := os.ReadFile(filepath.Join(s.dir, "weir.yaml"))
	s.must(err)
	return strings.Replace(string(b), s.body, body, 1)
}

// apply asks the agent for a body.
func (s *site) apply(body string) (out string, code int) {
	s.t.Helper()
	file := filepath.Join(s.dir, "new.yaml")
	s.must(os.WriteFile(file, []byte(s.text(body)), 0o644))
	return s.run("apply", file)
}

const quickly = "apply: {probation: 50ms}\n"

// TestCase23_Apply: the agent is asked for each config while it runs. A refusal names the step, and the old version goes on.
func TestCase23_Apply(t *testing.T) {
	versions := versions23(t)
	s := newSite(t, quickly+body23(versions[1]))
	s.startReady()
	s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225600000}`))
	s.handled()
	for _, c := range []struct {
		v, code int
		word    string
	}{{2, 7, "dd"}, {5, 7, "it was dedup"}, {3, 0, "keep"}, {6, 0, "keep"}, {4, 0, "was dd"}} {
		out, code := s.apply(quickly + body23(versions[c.v]))
		if code != c.code || !strings.Contains(out, c.word) {
			t.Fatalf("v%d: exit %d, want %d with %q\n%s", c.v, code, c.code, c.word, out)
		}
		s.eventually("it runs", func(st api.Status) bool { return st.Pipelines[0].State == "running" })
	}
	s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225601000}`)) // known to dd, so to dd2
	s.broker.Publish("in/b", 1, false, []byte(`{"t":1767226200000}`)) // ends the window
	s.eventually("the window is delivered", func(st api.Status) bool { return st.Pipelines[0].Sinks[0].Confirmed >= 1 })
	if rows := s.sinkData("out.jsonl"); len(rows) != 1 || !strings.Contains(rows[0], `"k":"a","n":1`) {
		t.Errorf("%v: want one reading of a", rows)
	}
	s.stop()
}

// TestCase23_StartFromSavepoint: the same configs under another name, begun from the file.
func TestCase23_StartFromSavepoint(t *testing.T) {
	versions := versions23(t)
	s := newSite(t, body23(versions[1]))
	s.startReady()
	s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225600000}`))
	s.handled()
	if out, code := s.run("pipeline", "stop", "p", "--savepoint", "--dir", s.dir, "--name", "s"); code != 0 {
		t.Fatal(out)
	}
	s.must(s.agent.Stop(patience))
	for v, want := range map[int]string{2: "step dd", 5: "it was dedup", 4: ""} {
		s.body = strings.NewReplacer("  p:", "  "+[]string{2: "two", 4: "four", 5: "five"}[v]+":", "start: earliest", "start: savepoint "+s.dir+"/s.savepoint",
			"out.jsonl", "four.jsonl").Replace(body23(versions[v]))
		s.start()
		s.eventually("it runs or is refused", func(st api.Status) bool {
			p := st.Pipelines[0]
			return want == "" && p.State == "running" || want != "" && p.State == "failed" && strings.Contains(p.Error, want)
		})
		if want == "" {
			s.broker.Publish("in/a", 1, false, []byte(`{"t":1767225601000}`))
			s.broker.Publish("in/b", 1, false, []byte(`{"t":1767226200000}`))
			s.eventually("the window is delivered", func(st api.Status) bool { return st.Pipelines[0].Sinks[0].Confirmed >= 1 })
			if rows := s.sinkData("four.jsonl"); len(rows) != 1 || !strings.Contains(rows[0], `"k":"a","n":1`) {
				t.Errorf("%v: want one reading of a", rows)
			}
		}
		s.must(s.agent.Stop(patience))
	}
}

// TestCase20_OldStateOnPurpose: the pipeline that is made anew under the same name has the old state when it is told to, and only then.
func TestCase20_OldStateOnPurpose(t *testing.T) {
	s := newSite(t, case20("r1", "first.jsonl"))
	s.startReady()
	messages := lines(t, "20")
	for _, l := range messages {
		if l.Op == "" && l.N < 2 {
			s.publish(l)
		}
	}
	s.handled()
	s.checkpoint("r1")
	s.settled()
	if out, code := s.run("savepoint", "create", "r1", "--dir", s.dir, "--name", "s"); code != 0 {
		t.Fatal(out)
	}
	s.stop()
	s.body = case20("other", "other.jsonl")
	s.startReady()
	s.stop()
	s.body = strings.Replace(case20("r1", "third.jsonl"), "  r1:\n", "  r1:\n    start: savepoint "+s.dir+"/s.savepoint\n", 1)
	s.startReady()
	for _, l := range messages {
		if l.Op == "" && l.N == 2 {
			s.publish(l)
		}
	}
	s.handled()
	s.checkpoint("r1")
	s.settled()
	if rows := s.sinkData("third.jsonl"); len(rows) != 0 {
		t.Errorf("%v: the old state knows it", rows)
	}
	s.stop()
}

// TestReloadChangesSources: SIGHUP has the agent read its file again. A source that comes is subscribed to, one that goes is not any more, and what the broker holds meanwhile
// is not lost.
func TestReloadChangesSources(t *testing.T) {
	source := func(n string) string { return "  " + n + ": {mqtt: {broker: local, topic: \"" + n + "/+\"}}\n" }
	pipe := func(n string) string {
		return "  p-" + n + ":\n    start: earliest\n    checkpoint: {interval: 50ms}\n    sinks: [{uid: up, from: " + n + ", file: {path: " + n + ".jsonl}}]\n"
	}
	s := newSite(t, quickly+"sources:\n"+source("a")+source("b")+"pipelines:\n"+pipe("a")+pipe("b"))
	s.startReady()
	s.broker.Publish("a/x", 1, false, []byte(`{"n":1}`))
	s.broker.Publish("b/x", 1, false, []byte(`{"n":2}`))
	s.settled()
	next := quickly + "sources:\n" + source("a") + source("c") + "pipelines:\n" + pipe("a") + pipe("c")
	s.must(os.WriteFile(filepath.Join(s.dir, "weir.yaml"), []byte(s.text(next)), 0o644))
	s.body = next
	s.must(syscall.Kill(s.agent.PID(), syscall.SIGHUP))
	for range 50 { // while it changes
		s.broker.Publish("a/x", 1, false, []byte(`{"n":0}`))
	}
	s.eventually("it is in force", func(st api.Status) bool {
		return st.Apply != nil && st.Apply.State == "committed" && len(st.Pipelines) == 2 && st.Sessions[0].State == "ready"
	})
	s.broker.Publish("b/x", 1, false, []byte(`{"n":3}`))
	s.broker.Publish("c/x", 1, false, []byte(`{"n":4}`))
	s.eventually("all is delivered", func(st api.Status) bool {
		return st.Pipelines[0].Sinks[0].Confirmed == 51 && st.Pipelines[1].Sinks[0].Confirmed == 1
	})
	if a, b, c := s.sinkData("a.jsonl"), s.sinkData("b.jsonl"), s.sinkData("c.jsonl"); len(a) != 51 || len(b) != 1 || len(c) != 1 {
		t.Errorf("%d of a, %v of b, %v of c", len(a), b, c)
	}
	s.stop()
}
