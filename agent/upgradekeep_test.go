//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/upgradetest"
)

// keeper counts what it is told.
type keeper struct {
	*upgradetest.Fake
	told int
	err  error
	away bool
}

func (k *keeper) Probe(ctx context.Context) (upgrade.Caps, error) {
	if k.away {
		return upgrade.Caps{}, errors.New("no bus")
	}
	return k.Fake.Probe(ctx)
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
		u := &upgrader{agent: &Agent{options: Options{Backend: k}}, rec: c.rec, here: upgrade.Situation{Booted: c.booted}, backend: k}
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

// TestBackendThatComesLate: what could not be asked at the start is asked again, and told then that the start was a good one; a slot that is not what it was taken for runs on as it is.
func TestBackendThatComesLate(t *testing.T) {
	for _, other := range []bool{false, true} {
		k := &keeper{Fake: upgradetest.NewFake(), away: true}
		booted, err := k.Booted(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rec := upgrade.Record{State: upgrade.Committed, Target: upgrade.Target{SHA256: "00"}, Active: "other", Standby: booted}
		if other {
			rec.Active, rec.Standby = booted, "other"
		}
		u := &upgrader{agent: &Agent{options: Options{Backend: k}}, rec: rec, here: upgrade.Situation{Booted: rec.Runs()}, tally: map[string]uint64{}}
		failed := 0
		for range 2 * keepEvery {
			done, err := u.keep(t.Context())
			if done {
				t.Fatal("it was told without a bus")
			}
			if err != nil {
				failed++
			}
		}
		if failed != 2 {
			t.Errorf("asked %d times", failed)
		}
		if err := u.reach(t.Context()); err == nil || !strings.Contains(err.Error(), "no bus") {
			t.Errorf("an order without a bus: %v", err)
		}
		k.away = false
		done, err := u.keep(t.Context())
		if done == other || (err != nil) != other || (u.backend == nil) != other || (k.told == 1) == other {
			t.Errorf("another slot %v: done %v, told %d times, %v", other, done, k.told, err)
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
