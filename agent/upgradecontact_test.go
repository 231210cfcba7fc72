//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
)

// TestUpgradeWantsAWordFromTheFleet: a program that cannot be reached from afar any more would be the last one that a fleet installs. It stays on trial until it has read the fleet's documents, if the one before could.
func TestUpgradeWantsAWordFromTheFleet(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.put(1, 10)
	b.await("delivery", at(10))
	b.order(document.DoStart, nil)
	b.await("contact", func(s *api.Status) bool { return s.Fleet != nil && s.Fleet.Commands[document.ResultDone] > 0 })
	b.upgradeTo("9.9.1", nil)
	b.ended()
	dir := strings.TrimPrefix(b.parse().Central.URL.Value, "file://")
	if err := os.Rename(dir, dir+".away"); err != nil { // as a disk that is not mounted: it answers, and has nothing
		t.Fatal(err)
	}
	b.up()
	b.put(11, 20)
	s := b.await("nothing but the fleet lacks", func(s *api.Status) bool {
		return upgradeIs(upgrade.Probation)(s) && strings.HasPrefix(s.Upgrade.Waits, "no signed document") && s.Fleet.ContactSeconds >= 0
	})
	if rec := b.agent.upgrader.record(); !rec.Contact || s.Upgrade.Held == 0 {
		t.Errorf("%+v %+v", rec, s.Upgrade)
	}
	if err := errors.Join(os.RemoveAll(dir), os.Rename(dir+".away", dir)); err != nil { // it has written a report there
		t.Fatal(err)
	}
	b.await("commit", upgradeIs(upgrade.Committed))
	if rec := b.agent.upgrader.record(); rec.Offline {
		t.Error("it is said to be committed without a word from the fleet")
	}
	b.await("delivery", at(20))
	b.halt()
	b.wantIDs("p", [2]int{1, 20})
}
