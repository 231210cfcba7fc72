//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
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
			dir := filepath.Join(b.dir, "state", "upgrade")
			store := upgrade.Store{FS: disk.OS, Dir: dir}
			r, err := store.Load()
			if err != nil {
				t.Fatal(err)
			}
			switch r.State = c.in; c.in {
			case upgrade.Fetching:
				r.Savings, r.Tries, r.Minor = nil, 0, 0
			case upgrade.Rollback:
				r.Minor++
			}
			name := filepath.Join(dir, localFile)
			if err := errors.Join(store.Save(&r), os.Remove(name), damages[c.damage](name)); err != nil {
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
