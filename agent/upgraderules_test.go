//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// TestRule22_SavepointHoldsTheJournal: from its making until the program is committed, or the way back has its first checkpoint; over every start in between, of either program.
func TestRule22_SavepointHoldsTheJournal(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	held := func(a *Agent, when string) {
		t.Helper()
		savings := a.upgrader.record().Savings
		if len(savings) != 2 {
			t.Fatalf("%s: %d savepoints", when, len(savings))
		}
		for _, saving := range savings {
			if at, is := a.journal.Stats().Holders[upgradeHold+saving.UUID]; !is || at > pipeline.Position(saving.Position) {
				t.Errorf("%s: the journal is held from %d, %v, and %s stands at %d", when, at, is, saving.Name, saving.Position)
			}
			if _, err := os.Stat(filepath.Join(restore.SavepointDir(a.config), saving.Savepoint+restore.SavepointSuffix)); err != nil {
				if _, err = os.Stat(saving.Savepoint); err != nil {
					t.Errorf("%s: %v", when, err)
				}
			}
		}
	}
	held(b.agent, "on trial")
	b.end()
	b.startWith(func(a *Agent) { held(a, "before the next start on trial does anything") })
	b.await("the trial again", upgradeIs(upgrade.Probation))
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ended()
	s.booted = upgrade.Factory
	b.startWith(func(a *Agent) {
		held(a, "before the way back begins")
		a.die = func(at string) {
			if at == "upgrade-before-restoring-restored" {
				held(a, "until the way back is at its end")
			}
		}
	})
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.await("delivery", at(120))
	if n := b.agent.journal.Stats().Holders; len(n) != 2 {
		t.Errorf("behind it the journal is held by %v", n)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 120})
}

// lateCommit is a backend whose Commit a test answers.
type lateCommit struct {
	*slotDir
	asked func() error
}

func (l *lateCommit) Commit(context.Context) error { return l.asked() }

// TestRule24_NothingLeavesBeforeTheCommit: committing is durable before the backend is asked; until that is done, and durable too, nothing leaves. The old program, started in between, has the new one started again.
func TestRule24_NothingLeavesBeforeTheCommit(t *testing.T) {
	b, s := newUpgradeBench(t)
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}
	var asked, done atomic.Int64
	b.options.Backend = &lateCommit{s, func() error {
		if r, err := store.Read(); err != nil || r.State != upgrade.Committing {
			t.Errorf("the backend is told to commit, and the record says %q, %v", r.State, err)
		}
		if asked.Add(1); done.Load() == 0 {
			return errors.New("planted: the boot loader does not answer")
		}
		return nil
	}}
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	b.boot(s)
	b.put(96, 120)
	worked := func(s *api.Status) bool {
		return upgradeIs(upgrade.Committing)(s) && s.Pipelines[0].Checkpoint.Position >= 120 && s.Pipelines[1].Checkpoint.Position >= 120
	}
	b.await("the new program has passed", worked)
	b.await("another try", func(*api.Status) bool { return asked.Load() > 1 })
	nothingLeft := func(when string) {
		t.Helper()
		for _, p := range []string{"p", "q"} {
			if ids, _ := b.ids(p, "now"); len(ids) != 95 {
				t.Errorf("%s: upstream holds %d results of %s", when, len(ids), p)
			}
		}
	}
	nothingLeft("not committed yet")
	b.end()
	before, err := store.Read()
	if err != nil {
		t.Fatal(err)
	}
	s.booted, s.calls = upgrade.Factory, nil // as a boot loader falls back
	b.startWith(func(*Agent) {})
	b.ended()
	nothingLeft("behind a start of the old program")
	r, err := store.Read()
	if got := strings.Join(s.calls, ", "); err != nil || got != "activate a, restart" || r.State != upgrade.Committing || r.Tries != before.Tries-1 {
		t.Errorf("the old program has asked the backend to %s, and the record is %s with %d tries of %d, %v", got, r.State, r.Tries, before.Tries, err)
	}
	done.Store(1)
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.await("delivery", at(120))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 120})
	}
	b.wantCounts(12)
}
