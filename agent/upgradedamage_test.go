//go:build !nocentral

package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// TestDamagedOrder: what was noted of the order beside the record is damaged, or in the way, while an upgrade is under way. The agent starts whichever program it is, and the upgrade ends.
func TestDamagedOrder(t *testing.T) {
	write := func(text string) func(string) error {
		return func(name string) error { return os.WriteFile(name, []byte(text), 0o600) }
	}
	damages := map[string]func(name string) error{
		"no JSON":        write(`{"file":"x","config:""}`),
		"another config": write(`{"file":"x","config":"ab"}`),
		"a pipe":         func(name string) error { return unix.Mkfifo(name, 0o600) },
	}
	for _, c := range []struct {
		damage   string
		in, ends upgrade.State
	}{
		{"no JSON", upgrade.Fetching, upgrade.Failed}, {"no JSON", upgrade.Switched, upgrade.Committed}, {"no JSON", upgrade.Rollback, upgrade.RolledBack},
		{"another config", upgrade.Switched, upgrade.Committed}, {"a pipe", upgrade.Fetching, upgrade.Failed},
	} {
		t.Run(c.damage+" "+string(c.in), func(t *testing.T) {
			b, s := newUpgradeBench(t)
			b.runsTo(s, 95)
			b.upgradeTo("v2", nil)
			b.ended()
			dir := b.recordIs(c.in)
			name := filepath.Join(dir, localFile)
			if err := errors.Join(os.Remove(name), damages[c.damage](name)); err != nil {
				t.Fatal(err)
			}
			b.boot(s)
			b.put(96, 120)
			b.await("end", upgradeIs(c.ends))
			b.await("delivery", at(120))
			b.goesOnTo(121, 140)
		})
	}
}

// recordIs puts a switch that was made back to another state.
func (b *bench) recordIs(state upgrade.State) (dir string) {
	b.t.Helper()
	dir = filepath.Join(b.dir, "state", "upgrade")
	store := upgrade.Store{FS: disk.OS, Dir: dir}
	r, err := store.Load()
	if err == nil {
		switch r.State = state; state {
		case upgrade.Fetching:
			r.Savings, r.Tries, r.Minor = nil, 0, 0
		case upgrade.Rollback:
			r.Minor++
		}
		err = store.Save(&r)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	return dir
}

// TestFetchWhereOthersLie: what lies in the place of what is fetched is neither waited for nor written to, and the fetch comes to its end.
func TestFetchWhereOthersLie(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	dir := b.recordIs(upgrade.Fetching)
	precious := filepath.Join(b.dir, "precious")
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errors.Join(upgrade.Discard(disk.OS, dir), os.WriteFile(precious, []byte("precious"), 0o600), os.Symlink(precious, at("slot.part")), unix.Mkfifo(at("slot.of"), 0o600), os.MkdirAll(at("slot.of.tmp/x"), 0o700), os.Link(precious, at("slot"))); err != nil {
		t.Fatal(err)
	}
	b.boot(s)
	b.ended()
	b.boot(s)
	b.put(96, 120)
	b.await("commit", upgradeIs(upgrade.Committed))
	if text, err := os.ReadFile(precious); err != nil || string(text) != "precious" {
		t.Errorf("what was linked to is %q now, %v", text, err)
	}
	b.goesOnTo(121, 140)
}

// TestDamagedRoot: the next root is damaged on flash. The fleet directs the gateway, and it has the root again from the store.
func TestDamagedRoot(t *testing.T) {
	b := newFleetBench(t)
	first, err := rig.FleetRoot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	e, err := signed.Parse(first)
	if err != nil {
		t.Fatal(err)
	}
	root, err := signed.DecodeRoot(e.Payload)
	if err != nil {
		t.Fatal(err)
	}
	root.Version = 2
	b.publish(depot.Root(2), signed.TypeRoot, root, "root")
	isTwo := func(s *api.Status) bool { return s.Fleet != nil && s.Fleet.Root == 2 }
	b.up()
	b.await("root 2", isTwo)
	b.halt()
	name := filepath.Join(b.dir, "state", "upgrade", "root-2.json")
	text, err := os.ReadFile(name)
	if err == nil {
		text[len(text)/2] ^= 4
		err = os.WriteFile(name, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	b.up()
	b.await("root 2 once more", isTwo)
	if again, err := os.ReadFile(name); err != nil || bytes.Equal(again, text) {
		t.Errorf("it is damaged still, %v", err)
	}
	b.put(1, 10)
	b.await("delivery", at(10))
	b.halt()
}
