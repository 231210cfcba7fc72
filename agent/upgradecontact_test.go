//go:build !nocentral

package agent

import (
	"os"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
)

// TestUpgradeWantsAWordFromTheFleet: a program that cannot be reached from afar any more would be the last one that a fleet installs. It stays on trial until it has read the fleet's documents, if the one before could.
func TestUpgradeWantsAWordFromTheFleet(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	b.await("contact", func(s *api.Status) bool { return s.Fleet != nil && s.Fleet.ContactSeconds >= 0 })
	b.upgradeTo("9.9.1", nil)
	b.ended()
	dir := strings.TrimPrefix(b.parse().Central.URL.Value, "file://")
	for _, err := range []error{os.Rename(dir, dir+".away"), os.WriteFile(dir, []byte("no directory"), 0o600)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.up()
	b.put(11, 20)
	s := b.await("nothing but the fleet lacks", func(s *api.Status) bool {
		return upgradeIs(upgrade.Probation)(s) && strings.HasPrefix(s.Upgrade.Waits, "no signed document") && s.Fleet.Failures > 0
	})
	if rec := b.agent.upgrader.record(); !rec.Contact || s.Upgrade.Held == 0 {
		t.Errorf("%+v %+v", rec, s.Upgrade)
	}
	for _, err := range []error{os.Remove(dir), os.Rename(dir+".away", dir)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	b.await("commit", upgradeIs(upgrade.Committed))
	if rec := b.agent.upgrader.record(); rec.Offline {
		t.Error("it is said to be committed without a word from the fleet")
	}
	b.await("delivery", at(20))
	b.halt()
	b.wantIDs("p", [2]int{1, 20})
}
