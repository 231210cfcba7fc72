//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/tests/rig"
)

// upgradeEnds awaits the end of the n-th upgrade.
func (b *bench) upgradeEnds(n uint64, state upgrade.State) {
	b.t.Helper()
	b.await("the end of an upgrade", func(s *api.Status) bool { return upgradeIs(state)(s) && s.Upgrade.Number == n })
}

// TestUpgradesInOneProcess: what one upgrade has tried, and stopped, is nothing to the next one of the same process. Each time the pipelines go on, but for the one that was stopped in between.
func TestUpgradesInOneProcess(t *testing.T) {
	b, s := newUpgradeBench(t)
	s.refuses = errors.New("the boot loader did not take it")
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.upgradeEnds(1, upgrade.RolledBack)
	b.put(96, 110)
	b.await("delivery", at(110))
	b.upgradeTo("v2", nil)
	b.upgradeEnds(2, upgrade.RolledBack)
	b.put(111, 120)
	b.await("delivery", at(120))
	if err := b.agent.StopPipeline(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	b.upgradeTo("v2", nil)
	b.upgradeEnds(3, upgrade.RolledBack)
	if r := b.record(); len(r.Savings) != 1 || !b.agent.named("q").is(PipelineStopped) || b.agent.named("p").is(PipelineStopped) {
		t.Errorf("%+v", r)
	}
	if err := b.agent.StartPipeline(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	b.goesOnTo(121, 140)
}

// TestWhatAnUpgradeOwesIsDone: what follows the end of an upgrade, and fails, is tried again in the same process. No other upgrade comes before: it would forget what is to be done.
func TestWhatAnUpgradeOwesIsDone(t *testing.T) {
	b, s := newUpgradeBench(t)
	tries, may := atomic.Int64{}, atomic.Bool{}
	s.booted = upgrade.Factory
	b.startWith(func(a *Agent) {
		a.upgrader.owed = func(context.Context) error {
			if tries.Add(1); !may.Load() {
				return errors.New("the disk does not take it")
			}
			return nil
		}
	})
	b.put(1, 95)
	b.await("delivery", at(95))
	file, release := program(t, b.dir, "v2", nil)
	ask := func() error { return b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}) }
	if err := ask(); !errors.Is(err, errUpgrading) {
		t.Errorf("an upgrade before the end of the last one: %v", err)
	}
	may.Store(true)
	was := tries.Load()
	b.await("another try", func(*api.Status) bool { return tries.Load() > was })
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	b.ended()
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.goesOnTo(96, 120)
}

// TestFailedRescueStartsNothing: in a rescue no pipeline runs, also behind an upgrade that came to nothing.
func TestFailedRescueStartsNothing(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	s.booted, b.options.ControlOnly = upgrade.Factory, true
	b.startWith(func(*Agent) {})
	b.await("the rescue", func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.NotUsable != "" })
	file := filepath.Join(b.dir, "weir-broken")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := rig.Release(t.Context(), file, "v3", nil)
	if err == nil {
		err = b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release})
	}
	if err != nil {
		t.Fatal(err)
	}
	b.upgradeEnds(2, upgrade.Failed)
	for range 20 {
		for _, p := range b.agent.all() {
			if !p.is(PipelineStopped) {
				t.Fatalf("pipeline %s runs in a rescue", p.name)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	b.upgradeTo("v4", nil)
	b.ended()
	b.options.ControlOnly = false
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.goesOnTo(96, 120)
}
