//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/upgradetest"
)

// keeper counts what it is told.
type keeper struct {
	*upgradetest.Fake
	told int
	err  error
}

func (k *keeper) Keep(context.Context) error { k.told++; return k.err }

// TestGoodStartIsTold: at rest, of the system that the record has run, until the boot loader knows.
func TestGoodStartIsTold(t *testing.T) {
	target := upgrade.Target{SHA256: "00"}
	for _, c := range []struct {
		name   string
		rec    upgrade.Record
		booted upgrade.Slot
		told   bool
	}{
		{"no upgrade ever", upgrade.Record{}, "rootfs.0", true},
		{"committed", upgrade.Record{State: upgrade.Committed, Target: target, Active: "rootfs.0", Standby: "rootfs.1"}, "rootfs.1", true},
		{"committed, and the loader fell back", upgrade.Record{State: upgrade.Committed, Target: target, Active: "rootfs.0", Standby: "rootfs.1"}, "rootfs.0", false},
		{"rolled back", upgrade.Record{State: upgrade.RolledBack, Target: target, Active: "rootfs.0", Standby: "rootfs.1"}, "rootfs.0", true},
		{"on trial", upgrade.Record{State: upgrade.Probation, Target: target, Active: "rootfs.0", Standby: "rootfs.1"}, "rootfs.1", false},
		{"committing", upgrade.Record{State: upgrade.Committing, Target: target, Active: "rootfs.0", Standby: "rootfs.1"}, "rootfs.1", false},
	} {
		k := &keeper{Fake: upgradetest.NewFake(), err: errors.New("no bus")}
		u := &upgrader{rec: c.rec, here: upgrade.Situation{Booted: c.booted}, backend: k}
		done, err := u.keep(t.Context())
		if done || (err != nil) != c.told {
			t.Errorf("%s, no bus: done %v, %v", c.name, done, err)
		}
		k.err = nil
		if done, err := u.keep(t.Context()); done != c.told || err != nil || (k.told == 2) != c.told {
			t.Errorf("%s: done %v, told %d times, %v", c.name, done, k.told, err)
		}
	}
}

// TestSystemCountsItsStarts: each start of a system on trial uses up a try; of the agent alone the helper counts.
func TestSystemCountsItsStarts(t *testing.T) {
	for _, reboots := range []bool{false, true} {
		u := &upgrader{
			rec:  upgrade.Record{State: upgrade.Switched, Target: upgrade.Target{SHA256: "00"}, Active: "rootfs.0", Standby: "rootfs.1", Tries: upgrade.TriesNew},
			here: upgrade.Situation{Booted: "rootfs.1"}, caps: upgrade.Caps{NeedsReboot: reboots},
		}
		var states []upgrade.State
		for range upgrade.TriesNew + 1 {
			if err := u.countStart(); err != nil {
				t.Fatal(err)
			}
			states = append(states, u.rec.State)
		}
		first, last := upgrade.Switched, upgrade.Switched
		if reboots {
			first, last = upgrade.Probation, upgrade.Rollback
		}
		if states[0] != first || states[upgrade.TriesNew] != last {
			t.Errorf("reboots %v: %q", reboots, states)
		}
	}
}
