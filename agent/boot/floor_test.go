package boot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/signed"
)

// TestTheFloorRisesWithACommit, and nothing below it is run or installed.
func TestTheFloorRisesWithACommit(t *testing.T) {
	for _, planted := range []fault{"", faultNoFloor} {
		g := newGateway(t)
		g.p.planted = planted
		first, _ := g.installed("one", nil)
		b := program("two", 100_000)
		r := releaseOf(b)
		r.SecureVersion, r.MinSecureVersion = 5, 5
		second := upgrade.Record{Number: 2, State: upgrade.Switched, Target: g.fetched(b, r), From: first.Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
		g.save(second)
		g.start()
		if n, err := g.p.floor(); n != 0 || err != nil {
			t.Errorf("on trial the floor is %d, %v", n, err)
		}
		second = g.load()
		second.State = upgrade.Committed
		g.save(second)
		if got := g.start(); got != "two" {
			t.Fatalf("%s runs: %q", got, g.said)
		}
		if n, err := g.p.floor(); n != 5 || err != nil {
			t.Errorf("the floor is %d, %v", n, err)
		}
		old := program("three", 100_000)
		r = releaseOf(old)
		r.SecureVersion = 4
		third := upgrade.Record{Number: 3, State: upgrade.Switched, Target: g.fetched(old, r), From: second.Target, Active: upgrade.SlotB, Standby: upgrade.SlotA, Tries: upgrade.TriesNew}
		g.save(third)
		got := g.start()
		if planted == "" && got != "two" {
			t.Errorf("%s runs: %q", got, g.said)
		}
		if planted != "" && got != "three" {
			t.Errorf("the planted fault is not found: %s runs: %q", got, g.said)
		}
	}
	t.Run("an unreadable floor", func(t *testing.T) {
		g := newGateway(t)
		g.installed("one", nil)
		g.must(os.WriteFile(filepath.Join(g.p.Dir, floorFile), []byte("none"), 0o644))
		if got := g.start(); got != "factory" {
			t.Errorf("%s runs: %q", got, g.said)
		}
	})
}

// TestTheRootIsNotRolledBack: what was known of newer root documents stays known, whatever is taken away or put back.
func TestTheRootIsNotRolledBack(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	stolen := g.keys[signed.RoleRelease]
	newer := map[signed.Role]signed.KeySigner{}
	for role, k := range g.keys {
		newer[role] = k
	}
	newer[signed.RoleRelease] = newKey(t)
	two := rootOf(2, newer)
	two.Roles.Release.Since = 2
	g.must(os.WriteFile(g.state("root-2.json"), g.sealRoot(&two, g.keys[signed.RoleRoot]), 0o644))
	b := program("two", 100_000)
	rec := upgrade.Record{Number: 2, State: upgrade.Switched, Target: g.fetched(b, releaseOf(b), newer[signed.RoleRelease]), From: g.load().Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
	g.save(rec)
	if got := g.start(); got != "two" {
		t.Fatalf("%s runs: %q", got, g.said)
	}
	g.must(os.Remove(g.state("root-2.json")))
	c := program("three", 100_000)
	rec = upgrade.Record{Number: 3, State: upgrade.Switched, Target: g.fetched(c, releaseOf(c), stolen), From: rec.Target, Active: upgrade.SlotB, Standby: upgrade.SlotA, Tries: upgrade.TriesNew}
	g.save(rec)
	if got := g.start(); got != "two" || !strings.Contains(strings.Join(g.said, "\n"), "too few signatures") {
		t.Errorf("%s runs: %q", got, g.said)
	}
	if s := g.p.Status(); s.Root != 2 || s.Fleet != "plant" {
		t.Errorf("%+v", s)
	}
	// A chain that nobody has signed.
	forged := rootOf(3, newer)
	forged.Roles.Release = signed.Grant{Keys: []signed.KeyID{stolen.ID()}, Threshold: 1, Since: 3}
	forged.Keys = []signed.Key{signed.NewRootKey(newer[signed.RoleRoot].Public(), ""), signed.NewRootKey(newer[signed.RoleDeploy].Public(), ""), signed.NewRootKey(stolen.Public(), "")}
	g.must(os.WriteFile(g.state("root-3.json"), g.sealRoot(&forged, stolen), 0o644))
	if got := g.start(); got != "two" {
		t.Errorf("%s runs: %q", got, g.said)
	}
}

// TestWithoutARoot nothing can be verified, and the factory program runs on.
func TestWithoutARoot(t *testing.T) {
	g := newGateway(t)
	g.must(os.Remove(g.p.Provisioned))
	b := program("new", 100_000)
	g.save(fromFactory(upgrade.Switched, g.fetched(b, releaseOf(b))))
	if got := g.start(); got != "factory" || g.rescue() {
		t.Errorf("%s runs: %q", got, g.said)
	}
	if r := g.load(); r.State != upgrade.Switched { // the old program looks at why
		t.Errorf("%s", r.State)
	}
	g.must(os.WriteFile(g.p.Provisioned, []byte("{}"), 0o644))
	if got := g.start(); got != "factory" {
		t.Errorf("%s runs: %q", got, g.said)
	}
}
