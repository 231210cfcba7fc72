//go:build !nocentral

package agent

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// TestUpgradeLeavesAgain: a program that was gone back from, and is started until it has no start left, runs nothing; it does not stand there for ever, and has the other one started now and then.
func TestUpgradeLeavesAgain(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ended()
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}
	r, err := store.Load()
	if err != nil || r.State != upgrade.Rollback {
		t.Fatal(r.State, err)
	}
	r.Tries = 1 // as a boot loader leaves it that has started it again and again
	if err := store.Save(&r); err != nil {
		t.Fatal(err)
	}
	s.booted, s.calls = r.Standby, nil
	b.startWith(func(a *Agent) {})
	if st := b.agent.Status(); st.Upgrade.Why == "" || b.agent.upgrader.act.Do != upgrade.Control || len(s.calls) > 0 {
		t.Errorf("%+v, asked of the backend: %v", st.Upgrade, s.calls)
	}
	b.halt()
	b.startWith(func(a *Agent) { a.upgrader.leaveAt = time.Now() })
	b.ended()
	if got := strings.Join(s.calls, ", "); got != "revert factory, restart" {
		t.Errorf("asked of the backend: %s", got)
	}
	b.boot(s)
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.await("delivery", at(120))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 120})
	}
}
