//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/upgradetest"
	"github.com/weirstream/weir/store/disk"
)

// refuser takes no artifact.
type refuser struct {
	*upgradetest.Fake
	err error
}

func (r *refuser) Stage(context.Context, upgrade.Slot, upgrade.Artifact, func(int)) error {
	return r.err
}

// TestStagedAgain: what may pass is tried again, so often and no more; what does not is no matter of tries.
func TestStagedAgain(t *testing.T) {
	for _, c := range []struct {
		err   error
		tries int
	}{{fmt.Errorf("%w: killed", upgrade.Passing("it ended")), stagesMax}, {errors.New("a wrong signature"), 1}} {
		u := &upgrader{backend: &refuser{upgradetest.NewFake(), c.err}, tally: map[string]uint64{}}
		tries, why := 0, (*unfit)(nil)
		for why == nil {
			err := u.put(t.Context(), upgrade.Artifact{})
			if tries++; err == nil || !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			errors.As(err, &why)
		}
		if tries != c.tries || why.cause != upgrade.CauseStage {
			t.Errorf("%v: given up behind %d tries, %s", c.err, tries, why.cause)
		}
	}
}

// TestSwitchInVain: a boot loader that refuses, and a reboot that does not come, end the upgrade: the pipelines stand as long. A program that ends is no try.
func TestSwitchInVain(t *testing.T) {
	refused := errors.New("the boot loader did not take it")
	ended, end := context.WithCancel(t.Context())
	end()
	for _, c := range []struct {
		name  string
		ctx   context.Context
		state upgrade.State
		tries int
	}{{"switched", t.Context(), upgrade.Switched, upgrade.AskedOften}, {"committing", t.Context(), upgrade.Committing, upgrade.AskedOften}, {"ends", ended, upgrade.Switched, 0}} {
		u := &upgrader{rec: upgrade.Record{State: c.state}, tally: map[string]uint64{}}
		given := 0
		for n := 1; n <= 2*upgrade.AskedOften && given == 0; n++ {
			err := u.inVain(c.ctx, refused)
			if why := (*unfit)(nil); errors.As(err, &why) {
				if given = n; why.cause.Rejects() {
					t.Errorf("%s: %s rejects a program that has not run", c.name, why.cause)
				}
			}
			if !errors.Is(err, refused) {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if given != c.tries {
			t.Errorf("%s: given up behind %d tries, want %d", c.name, given, c.tries)
		}
	}
}

// TestUpgradeThatIsNotActivated: the process that has stopped the pipelines goes back by itself, and they go on from their savepoints.
func TestUpgradeThatIsNotActivated(t *testing.T) {
	b, s := newUpgradeBench(t)
	s.refuses = errors.New("the boot loader did not take it")
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.put(96, 120)
	b.await("delivery", at(120))
	if r := b.record(); r.Cause != upgrade.CauseStage || len(r.Rejected) != 0 {
		t.Errorf("%+v", r)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 120})
	b.wantIDs("q", [2]int{1, 120})
}

// TestCommittingThatIsNotActivated (RULES 24): the old program, started behind a probation that was passed, activates the new one again. A boot loader that refuses does not keep the pipelines standing for ever: nothing has left yet.
func TestCommittingThatIsNotActivated(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ended()
	r := b.record()
	r.State, r.Tries, r.Cause, r.Why = upgrade.Committing, upgrade.TriesNew, "", ""
	r.Minor--
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}
	if _, err := store.Load(); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(&r); err != nil {
		t.Fatal(err)
	}
	s.refuses, s.booted, s.calls = errors.New("the boot loader did not take it"), r.Active, nil
	b.startWith(func(*Agent) {})
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.await("delivery", at(120))
	if r := b.record(); r.Cause != upgrade.CauseStage || len(r.Rejected) != 0 || !slices.Contains(s.calls, "activate "+string(r.Standby)) {
		t.Errorf("%+v, asked of the backend: %v", r, s.calls)
	}
	b.goesOnTo(121, 130)
}

// TestLeftInVain: a program that is not the one to run, and cannot have the other one started, says so, and asks at a falling rate.
func TestLeftInVain(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ended()
	r := b.record()
	s.booted, s.calls, s.stays = r.Standby, nil, errors.New("the boot loader did not take it")
	b.startWith(func(a *Agent) { a.upgrader.again.times = 20 }) // it has been so for a while
	b.await("word of it", func(st *api.Status) bool { return st.Upgrade.Stands != "" })
	st := b.agent.Status()
	if st.Upgrade.State != string(upgrade.Rollback) || st.Upgrade.Vain != 21 || !strings.Contains(st.Upgrade.Stands, "did not take it") || !slices.ContainsFunc(st.Problems, func(p string) bool { return strings.Contains(p, st.Upgrade.Stands) }) {
		t.Errorf("%+v, %v", st.Upgrade, st.Problems)
	}
	b.halt()
	if b.agent.upgrader.due() || time.Until(b.agent.upgrader.again.until) < upgrade.LeaveAgain-patience {
		t.Errorf("it is asked again in %s", time.Until(b.agent.upgrader.again.until))
	}
	s.stays = nil
	b.startWith(func(*Agent) {})
	b.ended()
}

// TestAskAgain: what a backend refuses is asked for at a falling rate, but for what only waits.
func TestAskAgain(t *testing.T) {
	begun, last, r := time.Unix(0, 0), time.Duration(0), inARow{}
	for n := range 30 {
		r = r.next(errors.New("refused"), begun)
		if wait := r.until.Sub(begun); wait < last || n < upgrade.AskedOften && wait != upgrade.AskedAgain || n > 15 && wait != upgrade.LeaveAgain {
			t.Errorf("behind %d tries it is asked again in %s", r.times, wait)
		} else {
			last = wait
		}
	}
	for _, err := range []error{nil, errWaits} {
		if r.next(err, begun) != (inARow{}) {
			t.Errorf("%v counts", err)
		}
	}
}

// TestRestoresThatCannotBeOrdered: the pipelines stand, and what the disk does not take is given up soon, with its reason.
func TestRestoresThatCannotBeOrdered(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.agent.die = func(at string) {
		if at != "upgrade-after-draining-drained" {
			return
		}
		for _, s := range b.agent.upgrader.backTo() {
			if err := os.MkdirAll(filepath.Join(b.agent.pipelineDir(s.UUID), restore.File+".tmp", "x"), 0o700); err != nil {
				t.Error(err)
			}
		}
	}
	b.upgradeTo("v2", nil)
	st := b.await("end", upgradeIs(upgrade.Failed))
	if !strings.Contains(st.Upgrade.Why, "pipeline p: order the restore") || st.Upgrade.Cause != string(upgrade.CauseDrain) {
		t.Errorf("%+v", st.Upgrade)
	}
	b.put(96, 120)
	b.await("delivery", at(120))
	b.goesOnTo(121, 140)
}
