//go:build !nocentral

package agent

import (
	"log/slog"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// deadRecord takes no record any more from a moment on: what comes behind a step is as if this process had been killed there.
type deadRecord struct {
	disk.FS
	dead atomic.Bool
}

func (d *deadRecord) Open(name string) (disk.File, error) {
	if d.dead.Load() {
		return nil, syscall.EIO
	}
	return d.FS.Open(name)
}

const (
	// restartsMany is how often a gateway is started that does not come up: of a power supply that fails, say.
	restartsMany = 50
	// restartsWhole of them open all that a start opens: more than there are tries.
	restartsWhole = 5
	// recordsMost bounds how often those starts may change the record: three tries of the new program, four of the old one, and the ways between; not one for each start.
	recordsMost = 12
)

// TestRestartsInEachState: in each state of an upgrade the gateway is started 50 times, and ends before anything runs. No such gateway wears its flash, and none is started for ever: the record comes to rest, or stays where it is; then a start that lasts has the pipelines run, and each result is there once.
func TestRestartsInEachState(t *testing.T) {
	for _, c := range []struct {
		step string        // behind which the process is gone
		at   upgrade.State // where it stands then
		then upgrade.State // behind the starts
		want upgrade.State // in the end
	}{
		{"upgrade-after-rest-asked", upgrade.Accepted, upgrade.Accepted, upgrade.Committed},
		{"upgrade-after-accepted-passed", upgrade.Fetching, upgrade.Fetching, upgrade.Committed},
		{"upgrade-after-fetching-fetched", upgrade.Staged, upgrade.Staged, upgrade.Committed},
		{"upgrade-after-staged-ready", upgrade.Draining, upgrade.Failed, upgrade.Failed},
		{"upgrade-after-draining-drained", upgrade.Saved, upgrade.Failed, upgrade.Failed},
		{"upgrade-after-saved-switching", upgrade.Switched, upgrade.Rollback, upgrade.RolledBack},
		{"upgrade-after-probation-passed", upgrade.Committing, upgrade.Rollback, upgrade.RolledBack},
		{"upgrade-after-probation-failed", upgrade.Rollback, upgrade.Rollback, upgrade.RolledBack},
		{"upgrade-after-rollback-reverted", upgrade.Restoring, upgrade.Restoring, upgrade.RolledBack},
	} {
		t.Run(string(c.at), func(t *testing.T) {
			b, s := newUpgradeBench(t)
			b.upgradesTo(s, c.step, c.want == upgrade.RolledBack && c.at != upgrade.Switched && c.at != upgrade.Committing)
			if r := b.record(); r.State != c.at {
				t.Fatalf("it stands in %q", r.State)
			}
			changes := b.restarts(s)
			if r := b.record(); r.State != c.then || changes > recordsMost {
				t.Errorf("behind %d starts it is %q, want %q; %d of them have changed the record", restartsMany, r.State, c.then, changes)
			}
			b.comesToRest(s, c.want)
			b.goesOnTo(96, 140)
		})
	}
}

// upgradesTo brings an upgrade behind a step, and ends the process there; bad: the new program fails its trial.
func (b *bench) upgradesTo(s *slotDir, step string, bad bool) {
	b.t.Helper()
	reached := make(chan struct{})
	var once sync.Once
	start := func() {
		b.bootWith(s, func(a *Agent) {
			d := &deadRecord{FS: disk.OS}
			a.upgrader.store.FS = d
			a.die = func(at string) {
				if at == step {
					d.dead.Store(true)
					once.Do(func() { close(reached) })
				}
			}
			if bad && s.booted != upgrade.Factory {
				a.upgrader.killed = "a test"
			}
		})
	}
	start()
	b.put(1, 95)
	b.await("delivery", at(95))
	b.upgradeTo("v2", nil)
	for {
		select {
		case <-reached:
			b.stop()
			select {
			case <-b.done:
			case <-time.After(patience):
				b.t.Fatal("the agent did not end")
			}
			return
		case err := <-b.done: // for the other program
			if err != nil {
				b.t.Fatal(err)
			}
			select {
			case <-reached:
				return
			default:
				start()
			}
		case <-time.After(patience):
			b.t.Fatalf("%s was not reached: %+v", step, b.agent.Status().Upgrade)
		}
	}
}

// restarts starts what the record says, again and again; each start ends before anything runs. It gives how many of them have changed the record.
func (b *bench) restarts(s *slotDir) (changes int) {
	b.t.Helper()
	before, cfg := b.record(), b.parse()
	for i := range restartsMany {
		s.booted = b.counted()
		if err := b.startAndEnd(cfg, i < restartsWhole); err != nil {
			b.t.Fatal(err)
		}
		if after := b.record(); !reflect.DeepEqual(before, after) {
			before = after
			changes++
		}
	}
	return changes
}

// startAndEnd is a start that ends when all is opened, or as soon as the record has been told of it.
func (b *bench) startAndEnd(cfg *config.Config, whole bool) error {
	if whole {
		a, err := New(cfg, b.options)
		if err != nil {
			return err
		}
		return a.Close()
	}
	a := &Agent{config: cfg, options: b.options, log: slog.New(slog.DiscardHandler), fs: disk.OS, fence: newFence(), die: func(string) {}}
	u, err := a.openUpgrader()
	if err != nil {
		return err
	}
	return u.settle()
}

// counted is what weir-boot does in front of a start: what it gives runs.
func (b *bench) counted() upgrade.Slot {
	b.t.Helper()
	n, link, _ := upgrade.Boot(b.record(), now(), func(upgrade.Slot) bool { return true })
	if n.State != upgrade.Idle {
		if err := (upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}).Save(&n); err != nil {
			b.t.Fatal(err)
		}
	}
	return link
}

func (b *bench) bootWith(s *slotDir, change func(*Agent)) {
	b.t.Helper()
	s.booted = b.counted()
	b.startWith(func(a *Agent) { a.upgrader.least = time.Millisecond; change(a) })
}

// comesToRest starts what the record says, as often as it ends for another program, until the upgrade is at its end and the pipelines run.
func (b *bench) comesToRest(s *slotDir, want upgrade.State) {
	b.t.Helper()
	b.bootWith(s, func(*Agent) {})
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		select {
		case err := <-b.done:
			if err != nil {
				b.t.Fatal(err)
			}
			b.bootWith(s, func(*Agent) {})
		default:
		}
		if st := b.agent.Status(); upgradeIs(want)(&st) && settled(&st) {
			return
		}
	}
	b.t.Fatalf("it is not %s: %+v", want, b.agent.Status().Upgrade)
}
