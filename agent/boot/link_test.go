package boot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
)

// TestWithoutAnUpgradeNothingIsWritten: the first start makes the link; no other one writes to flash, or reads a program.
func TestWithoutAnUpgradeNothingIsWritten(t *testing.T) {
	g := newGateway(t)
	var steps []string
	g.p.hook = func(s string) { steps = append(steps, s) }
	if got := g.start(); got != "factory" {
		t.Fatalf("%s runs: %q", got, g.said)
	}
	if want := []string{"make directory run", "sync directory " + filepath.Base(filepath.Dir(g.p.Run)), "make directory boot", "sync directory " + filepath.Base(filepath.Dir(g.p.Dir)), "symlink", "rename link", "sync directory boot"}; !slices.Equal(steps, want) {
		t.Errorf("the first start: %q", steps)
	}
	steps = nil
	for range 3 {
		if got := g.start(); got != "factory" {
			t.Fatalf("%s runs: %q", got, g.said)
		}
	}
	g.reboot()
	g.start()
	if len(steps) != 2 || len(g.said) != 0 { // the directory in memory
		t.Errorf("further starts: %q, said %q", steps, g.said)
	}
	entries, err := os.ReadDir(g.p.Dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("%v %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(g.p.Run, verifiedFile)); err == nil {
		t.Error("a program was hashed")
	}
}

// TestWhatRunsInEachState: from a record in each state, with the factory program or another slot as the one before.
func TestWhatRunsInEachState(t *testing.T) {
	for _, c := range []struct {
		state upgrade.State
		runs  string
	}{
		{upgrade.Accepted, "old"}, {upgrade.Fetching, "old"}, {upgrade.Staged, "old"}, {upgrade.Draining, "old"}, {upgrade.Saved, "old"},
		{upgrade.Switched, "new"}, {upgrade.Probation, "new"}, {upgrade.Committing, "new"}, {upgrade.Committed, "new"},
		{upgrade.Rollback, "old"}, {upgrade.Restoring, "old"}, {upgrade.RolledBack, "old"}, {upgrade.Failed, "old"},
	} {
		t.Run(string(c.state), func(t *testing.T) {
			g := newGateway(t)
			first, _ := g.installed("old", nil)
			b := program("new", 300_000)
			rec := upgrade.Record{Number: 2, State: c.state, Target: g.fetched(b, releaseOf(b)), From: first.Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
			g.save(rec)
			for n := range 2 {
				if got := g.start(); got != c.runs {
					t.Errorf("start %d: %s runs, want %s: %q", n, got, c.runs, g.said)
				}
			}
			if g.rescue() {
				t.Error("rescue")
			}
			b2, err := g.p.Booted()
			if want := map[string]upgrade.Slot{"old": "a", "new": "b"}[c.runs]; err != nil || b2.Slot != want || b2.Version != c.runs || b2.Start != g.p.Start || b2.State != g.p.State {
				t.Errorf("%+v %v", b2, err)
			}
		})
	}
}

// TestTriesAreCounted: three starts of a program that never gets on, then the old one. The count is durable before each.
func TestTriesAreCounted(t *testing.T) {
	g := newGateway(t)
	b := program("new", 200_000)
	g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
	for left := upgrade.TriesNew - 1; left >= 0; left-- {
		if got := g.start(); got != "new" {
			t.Fatalf("%s runs: %q", got, g.said)
		}
		if r := g.load(); r.State != upgrade.Probation || r.Tries != left {
			t.Fatalf("%s, %d tries, want %d", r.State, r.Tries, left)
		}
		if left == 1 {
			g.reboot()
		}
	}
	for range 2 {
		if got := g.start(); got != "factory" {
			t.Fatalf("%s runs: %q", got, g.said)
		}
		if r := g.load(); r.State != upgrade.Rollback || r.Cause != upgrade.CauseTries || len(r.Rejected) != 1 {
			t.Fatalf("%+v", r)
		}
	}
	if g.rescue() {
		t.Error("rescue")
	}
}

// TestUncountedStartsDoNotRun: where the count cannot be written, or was not even asked for, a program on trial does not run.
func TestUncountedStartsDoNotRun(t *testing.T) {
	uncounted := func(t *testing.T, planted fault) string {
		g := newGateway(t)
		g.p.planted = planted
		b := program("new", 200_000)
		g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
		g.p.hook = func(s string) {
			if s == "count" {
				panic(killed{s})
			}
		}
		return g.start()
	}
	if got := uncounted(t, ""); got != "factory" {
		t.Errorf("%s runs", got)
	}
	if got := uncounted(t, faultNoSettle); got != "new" {
		t.Errorf("the planted fault is not found: %s runs", got)
	}
	t.Run("counted for another start", func(t *testing.T) {
		g := newGateway(t)
		b := program("new", 200_000)
		g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
		g.must(os.WriteFile(g.p.Counted, []byte("start-0\n"), 0o644))
		g.p.hook = func(s string) {
			if s == "count" {
				panic(killed{s})
			}
		}
		if got := g.start(); got != "factory" {
			t.Errorf("%s runs", got)
		}
	})
	t.Run("without a name of the start", func(t *testing.T) {
		g := newGateway(t)
		b := program("new", 200_000)
		g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
		g.p.Start = ""
		_, _ = g.p.Link(t.Context())
		if err := g.p.Count(); err == nil {
			t.Error("it was counted")
		}
		_, _ = g.p.Settle(t.Context())
		if got := g.runs(); got != "factory" {
			t.Errorf("%s runs", got)
		}
	})
}

// TestADamagedSlotIsFound: behind a reboot, behind a start that followed another one, and on trial; the other slot runs, then the factory program in rescue.
func TestADamagedSlotIsFound(t *testing.T) {
	build := func(t *testing.T) (*gateway, upgrade.Record) {
		g := newGateway(t)
		first, _ := g.installed("old", nil)
		b := program("new", 300_000)
		rec := upgrade.Record{Number: 2, State: upgrade.Switched, Target: g.fetched(b, releaseOf(b)), From: first.Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
		g.save(rec)
		if got := g.start(); got != "new" {
			t.Fatalf("%s runs: %q", got, g.said)
		}
		rec.State = upgrade.Committed
		g.save(rec)
		g.must(os.Remove(g.state(stagedFile)))
		return g, rec
	}
	damage := func(g *gateway, s upgrade.Slot) {
		name := g.p.program(s)
		info, err := os.Stat(name)
		g.must(err)
		f, err := os.OpenFile(name, os.O_WRONLY, 0)
		g.must(err)
		_, err = f.WriteAt([]byte{'y'}, 100)
		g.must(err)
		g.must(f.Close())
		g.must(os.Chtimes(name, info.ModTime(), info.ModTime())) // as flash does that rots
	}
	found := func(t *testing.T, planted fault) string {
		g, _ := build(t)
		g.start()
		g.start() // hashed since the rename
		g.p.planted = planted
		damage(g, upgrade.SlotB)
		g.lines()
		b, err := g.p.Booted()
		g.must(err)
		return b.Version
	}
	if got := found(t, ""); got != "old" {
		t.Errorf("%s runs", got)
	}
	if got := found(t, faultNoDigest); got != "new" {
		t.Errorf("the planted fault is not found: %q runs", got)
	}
	t.Run("both", func(t *testing.T) {
		g, _ := build(t)
		g.start()
		damage(g, upgrade.SlotA)
		damage(g, upgrade.SlotB)
		g.reboot()
		if got := g.start(); got != "factory" || !g.rescue() {
			t.Errorf("%s runs, rescue %v", got, g.rescue())
		}
	})
	t.Run("mended by what was fetched", func(t *testing.T) {
		g, _ := build(t)
		g.must(os.WriteFile(g.state(stagedFile), program("new", 300_000), 0o644))
		damage(g, upgrade.SlotB)
		g.reboot()
		if got := g.start(); got != "new" || g.rescue() {
			t.Errorf("%s runs: %q", got, g.said)
		}
	})
	t.Run("gone", func(t *testing.T) {
		g, _ := build(t)
		g.must(os.RemoveAll(g.p.slot(upgrade.SlotB)))
		if got := g.start(); got != "old" || g.rescue() {
			t.Errorf("%s runs: %q", got, g.said)
		}
	})
}

// TestAPackageTakesTheFactoryProgram: another package, while no upgrade is under way, runs from the next start on, and stays until the next upgrade.
func TestAPackageTakesTheFactoryProgram(t *testing.T) {
	g := newGateway(t)
	rec, _ := g.installed("one", nil)
	g.must(os.WriteFile(filepath.Join(g.p.Factory, "weir"), program("package", 9000), 0o755))
	for range 2 {
		if got := g.start(); got != "package" || g.rescue() {
			t.Errorf("%s runs: %q", got, g.said)
		}
		if b, err := g.p.Booted(); err != nil || b.Taken == "" {
			t.Errorf("%+v %v", b, err)
		}
	}
	if _, err := os.Stat(g.p.slot(upgrade.SlotA)); err == nil {
		t.Error("the slot is still filled")
	}
	// The package of before again: the slot does not come back.
	g.must(os.WriteFile(filepath.Join(g.p.Factory, "weir"), g.factory, 0o755))
	if got := g.start(); got != "factory" || g.rescue() {
		t.Errorf("%s runs: %q", got, g.said)
	}
	// The next upgrade counts.
	b := program("two", 100_000)
	next := fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b)))
	next.Number = rec.Number + 1
	g.save(next)
	if got := g.start(); got != "two" {
		t.Errorf("%s runs: %q", got, g.said)
	}
	// While an upgrade is under way the package waits.
	g.must(os.WriteFile(filepath.Join(g.p.Factory, "weir"), program("package", 9000), 0o755))
	if got := g.start(); got != "two" {
		t.Errorf("%s runs: %q", got, g.said)
	}
	next = g.load()
	next.State = upgrade.Committed
	g.save(next)
	if got := g.start(); got != "package" {
		t.Errorf("%s runs: %q", got, g.said)
	}
}

// TestANewHelperDirectory: behind a purge, or on other hardware, the record tells of slots that are not there. That is no rescue.
func TestANewHelperDirectory(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	g.must(os.RemoveAll(g.p.Dir))
	for range 2 {
		if got := g.start(); got != "factory" || g.rescue() {
			t.Errorf("%s runs: %q", got, g.said)
		}
		g.reboot()
	}
}

// TestReset: the factory program, whatever the record says, until another upgrade.
func TestReset(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	b := program("two", 100_000)
	second := upgrade.Record{Number: 2, State: upgrade.Switched, Target: g.fetched(b, releaseOf(b)), From: g.load().Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
	g.save(second)
	if got := g.start(); got != "two" {
		t.Fatalf("%s runs: %q", got, g.said)
	}
	g.must(g.p.Reset())
	g.must(g.p.Reset())
	for range 2 {
		if got := g.start(); got != "factory" || g.rescue() {
			t.Errorf("%s runs: %q", got, g.said)
		}
	}
	third := fromFactory(upgrade.Switched, second.Target)
	third.Number = 3
	g.save(third)
	if got := g.start(); got != "two" {
		t.Errorf("%s runs: %q", got, g.said)
	}
}

// TestARecordOfAnotherBackend: slots that are whole systems are not this helper's.
func TestARecordOfAnotherBackend(t *testing.T) {
	g := newGateway(t)
	b := program("new", 100_000)
	to := g.fetched(b, releaseOf(b))
	to.Backend = "rauc"
	rec := fromFactory(upgrade.Probation, to)
	rec.Active, rec.Standby = "rootfs.0", "rootfs.1"
	g.save(rec)
	if got := g.start(); got != "factory" || g.rescue() {
		t.Errorf("%s runs: %q", got, g.said)
	}
	if got := g.load(); got.Tries != rec.Tries {
		t.Errorf("it was counted: %d", got.Tries)
	}
}

// TestStartsThatFollowOneAnotherWait, once there are many.
func TestStartsThatFollowOneAnotherWait(t *testing.T) {
	g := newGateway(t)
	for range freeMax {
		g.start()
	}
	if len(g.waits) != 0 {
		t.Fatalf("%v", g.waits)
	}
	for range 9 {
		g.start()
	}
	for i, w := range g.waits {
		if i > 0 && w < g.waits[i-1] || w > WaitMax {
			t.Errorf("%v", g.waits)
		}
	}
	if len(g.waits) != 9 || g.waits[8] != WaitMax {
		t.Errorf("%v", g.waits)
	}
	g.reboot()
	g.start()
	if len(g.waits) != 9 {
		t.Errorf("behind a reboot: %v", g.waits)
	}
}

// TestTwoSlotsAtMost: what lies beside them goes when one is filled.
func TestTwoSlotsAtMost(t *testing.T) {
	g := newGateway(t)
	g.must(os.MkdirAll(filepath.Join(g.p.Dir, slotsDir, "c", "d"), 0o755))
	g.installed("one", func(r *document.Release) { r.SecureVersion = 2 })
	entries, err := os.ReadDir(filepath.Join(g.p.Dir, slotsDir))
	if err != nil || len(entries) != 1 || entries[0].Name() != "a" {
		t.Errorf("%v %v", entries, err)
	}
}
