package boot

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

// TestAProgramOnTrialIsStartedAgain, whatever its exit code; no other one is, and none that was stopped.
func TestAProgramOnTrialIsStartedAgain(t *testing.T) {
	g := newGateway(t)
	env := func(result, code, status string) func(string) string {
		said := map[string]string{"SERVICE_RESULT": result, "EXIT_CODE": code, "EXIT_STATUS": status}
		return func(name string) string { return said[name] }
	}
	g.start()
	if g.p.Again(env("exit-code", "exited", "2")) {
		t.Error("without an upgrade")
	}
	b := program("new", 100_000)
	g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
	g.start()
	for _, c := range []struct {
		result, code, status string
		want                 bool
	}{{"exit-code", "exited", "2", true}, {"watchdog", "exited", "2", true}, {"exit-code", "exited", "5", true}, {"success", "exited", "0", false}, {"success", "killed", "TERM", false}, {"signal", "killed", "KILL", false}} {
		if got := g.p.Again(env(c.result, c.code, c.status)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	r := g.load()
	r.State = upgrade.Committed
	g.save(r)
	g.start()
	if g.p.Again(env("exit-code", "exited", "2")) {
		t.Error("behind the commit")
	}
}

// TestEndedByTheMachine: watchdog and memory are told of until a start that is no trial; exits, signals and stops are not.
func TestEndedByTheMachine(t *testing.T) {
	g := newGateway(t)
	env := func(result string) func(string) string {
		return func(name string) string { return map[string]string{"SERVICE_RESULT": result}[name] }
	}
	told := func() (e Ended, there bool) {
		there, err := g.p.readJSON(filepath.Join(g.p.Run, endedFile), &e)
		g.must(err)
		return e, there
	}
	g.start()
	g.must(g.p.Note(env("watchdog")))
	if _, there := told(); there {
		t.Error("without an upgrade")
	}
	b := program("new", 100_000)
	g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
	g.start()
	for _, result := range []string{"success", "exit-code", "signal", "core-dump", "timeout"} {
		g.must(g.p.Note(env(result)))
	}
	if e, there := told(); there {
		t.Errorf("%+v", e)
	}
	for _, result := range []string{"watchdog", "oom-kill"} {
		g.must(g.p.Note(env(result)))
		if e, _ := told(); e.SHA256 != digestOf(b) || e.How != machineEnds[result] {
			t.Errorf("%s: %+v", result, e)
		}
	}
	g.start()
	if _, there := told(); !there {
		t.Error("the next start on trial is not told")
	}
	r := g.load()
	r.State = upgrade.Committed
	g.save(r)
	g.start()
	if e, there := told(); there {
		t.Errorf("behind the trial: %+v", e)
	}
}

// TestAnUncountedStartIsRefused: the old program is told why it runs.
func TestAnUncountedStartIsRefused(t *testing.T) {
	g := newGateway(t)
	g.start()
	b := program("new", 100_000)
	g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
	g.starts++
	g.p.Start = fmt.Sprint("uncounted-", g.starts)
	_, err := g.p.Link(t.Context())
	g.must(err)
	_, err = g.p.Settle(t.Context())
	g.must(err)
	var list []Refused
	_, err = g.p.readJSON(filepath.Join(g.p.Run, refusedFile), &list)
	g.must(err)
	if len(list) != 1 || list[0].Slot != upgrade.SlotA || list[0].Why != "this start was not counted" {
		t.Errorf("%+v", list)
	}
}
