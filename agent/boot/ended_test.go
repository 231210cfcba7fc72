package boot

import (
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
