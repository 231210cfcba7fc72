//go:build !nocentral

package agent

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

// TestAFullDiskRejectsNoProgram: the disk is full when the new program starts, on trial or behind its probation. It is gone back from at the first start, nothing is said against it, and asked for again it stays.
func TestAFullDiskRejectsNoProgram(t *testing.T) {
	for _, state := range []upgrade.State{upgrade.Probation, upgrade.Committing} {
		t.Run(string(state), func(t *testing.T) {
			b, s := newUpgradeBench(t)
			b.runsTo(s, 95)
			b.upgradeTo("v2", nil)
			b.ended()
			store := upgrade.Store{FS: disk.OS, Dir: b.agent.upgrader.store.Dir}
			r, err := store.Load()
			if err != nil {
				t.Fatal(err)
			}
			r, s.booted, _ = upgrade.Boot(r, now(), func(upgrade.Slot) bool { return true })
			r.State = state
			if err := store.Save(&r); err != nil {
				t.Fatal(err)
			}
			pressed := disktest.Press(disk.OS)
			pressed.Below(filepath.Join(b.dir, "state")).Fail(disktest.Full, 1, -1)
			o := b.options
			o.fs = pressed
			if a, err := New(b.parse(), o); !errors.Is(err, syscall.ENOSPC) {
				if err == nil {
					a.Close()
				}
				t.Fatalf("a start on a full disk says %v", err)
			}
			if r, err = store.Load(); err != nil || r.State != upgrade.Rollback || r.Cause != upgrade.CauseSpace || len(r.Rejected) > 0 || !strings.Contains(r.Why, "no space left") {
				t.Errorf("%s by %q, rejected %v: %s, %v", r.State, r.Cause, r.Rejected, r.Why, err)
			}
			b.boot(s)
			b.await("the way back", upgradeIs(upgrade.RolledBack))
			b.put(96, 120)
			b.await("delivery", at(120))
			b.upgradeTo("v2", nil)
			b.ended()
			b.boot(s)
			b.await("commit", upgradeIs(upgrade.Committed))
			b.goesOnTo(121, 140)
		})
	}
}

// TestAFullDiskFailsAPipelineOnTrial: a pipeline that the full disk keeps from its state says nothing against the program either; one that fails otherwise does.
func TestAFullDiskFailsAPipelineOnTrial(t *testing.T) {
	for _, c := range []struct {
		err  error
		want upgrade.Cause
	}{{syscall.ENOSPC, upgrade.CauseSpace}, {syscall.EDQUOT, upgrade.CauseSpace}, {errors.New("no such step"), upgrade.CauseProbation}} {
		s := &supervisor{name: "p", state: PipelineFailed, err: c.err}
		a := &Agent{}
		a.roster.Store(&roster{supervisors: []*supervisor{s}})
		u := &upgrader{agent: a, rec: upgrade.Record{Savings: []upgrade.Saving{{Name: "p"}}}}
		if why, cause := u.failed(); cause != c.want || why == "" {
			t.Errorf("%v: %q, %q", c.err, cause, why)
		}
	}
}
