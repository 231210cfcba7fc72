package boot

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

// TestAPackageWithinAnUpgrade: a package that is installed while an upgrade is under way has its turn when that is committed, also when it came before the new program's slot was filled. The program of before may be the package's or of a slot.
func TestAPackageWithinAnUpgrade(t *testing.T) {
	for _, active := range []upgrade.Slot{upgrade.Factory, upgrade.SlotA} {
		t.Run(string(active), func(t *testing.T) {
			g := newGateway(t)
			from, standby := upgrade.Target{Version: "factory", SHA256: digestOf(g.factory)}, upgrade.SlotA
			if active == upgrade.SlotA {
				first, _ := g.installed("one", nil)
				from, standby = first.Target, upgrade.SlotB
			}
			b := program("two", 100_000)
			rec := upgrade.Record{Number: 2, State: upgrade.Fetching, Target: g.fetched(b, releaseOf(b)), From: from, Active: active, Standby: standby, Tries: upgrade.TriesNew}
			g.save(rec)
			g.must(os.WriteFile(filepath.Join(g.p.Factory, "weir"), program("package", 9000), 0o755))
			g.start() // as the package has it
			rec.State = upgrade.Switched
			g.save(rec)
			if got := g.start(); got != "two" {
				t.Fatalf("%s runs: %q", got, g.said)
			}
			rec = g.load()
			rec.State = upgrade.Committed
			g.save(rec)
			for range 2 {
				if got := g.start(); got != "package" || g.rescue() {
					t.Errorf("%s runs: %q", got, g.said)
				}
			}
		})
	}
}
