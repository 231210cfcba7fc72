package boot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

func system(state upgrade.State, backend string) upgrade.Record {
	return upgrade.Record{Number: 3, State: state, Target: upgrade.Target{Version: "2", Backend: backend, SHA256: digestOf([]byte("2"))}, Active: "rootfs.0", Standby: "rootfs.1", Tries: 3}
}

// TestMayReboot: in the states that end in another system, by a request of this boot. Whatever it is, it is taken away.
func TestMayReboot(t *testing.T) {
	for _, c := range []struct {
		name, request string
		state         upgrade.State
		backend       string
		may           bool
	}{
		{"switched", "this\n", upgrade.Switched, "rauc", true},
		{"rollback", "this\n", upgrade.Rollback, "rauc", true},
		{"rolled back, and started again", "this\n", upgrade.RolledBack, "rauc", true},
		{"another boot", "that\n", upgrade.Switched, "rauc", false},
		{"empty", "", upgrade.Switched, "rauc", false},
		{"long", string(make([]byte, 4096)), upgrade.Switched, "rauc", false},
		{"no upgrade", "this\n", upgrade.Idle, "rauc", false},
		{"staged", "this\n", upgrade.Staged, "rauc", false},
		{"committed", "this\n", upgrade.Committed, "rauc", false},
		{"the agent alone", "this\n", upgrade.Switched, "self", false},
	} {
		g := newGateway(t)
		request := filepath.Join(filepath.Dir(g.p.Counted), "reboot-request")
		g.must(os.WriteFile(request, []byte(c.request), 0o640))
		if c.state != upgrade.Idle {
			g.save(system(c.state, c.backend))
		}
		if err := g.p.MayReboot(request, "this\n"); (err == nil) != c.may || err != nil && !errors.Is(err, ErrNoReboot) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := os.Lstat(request); err == nil {
			t.Errorf("%s: the request is still there", c.name)
		}
	}
	g := newGateway(t)
	g.save(system(upgrade.Switched, "rauc"))
	secret := filepath.Join(t.TempDir(), "secret")
	g.must(os.WriteFile(secret, []byte("this\n"), 0o600))
	request := filepath.Join(filepath.Dir(g.p.Counted), "reboot-request")
	g.must(os.Symlink(secret, request))
	if err := g.p.MayReboot(request, "this"); !errors.Is(err, ErrNoReboot) {
		t.Errorf("a link is followed: %v", err)
	}
	if _, err := os.Stat(secret); err != nil {
		t.Errorf("what a link leads to was removed: %v", err)
	}
}

// TestSystemIsNotLinked: an upgrade of the whole system is none of the helper's slots. The program of the system runs, in no rescue, and nothing waits.
func TestSystemIsNotLinked(t *testing.T) {
	for _, state := range []upgrade.State{upgrade.Staged, upgrade.Switched, upgrade.Probation, upgrade.Committed, upgrade.Rollback} {
		g := newGateway(t)
		g.save(system(state, "rauc"))
		if got := g.start(); got != "factory" {
			t.Errorf("%s: %s runs", state, got)
		}
		b, err := g.p.Booted()
		if err != nil || b.Rescue != "" || b.Taken != "" || b.Trial || len(g.said) != 0 {
			t.Errorf("%s: %+v, said %q, %v", state, b, g.said, err)
		}
	}
}
