//go:build !nocentral

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/tests/rig"
)

// TestSelftestOnABusyMachine: a self-test that did not come to its end, or whose words did not come here in time, says nothing against the program: it may be asked for again, and is committed once the machine has time.
func TestSelftestOnABusyMachine(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 55)
	busy, left := filepath.Join(b.dir, "busy"), filepath.Join(b.dir, "left")
	file, _ := program(t, b.dir, "v2", nil)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n[ ! -e %s ] || exec sleep 60\n[ ! -e %s ] || sleep 2 &\n", busy, left)
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), "#!/bin/sh\n", script, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := rig.Release(t.Context(), file, "v2", nil)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(patient selftestPatience) {
		t.Helper()
		b.agent.upgrader.patient = patient
		if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); err != nil {
			t.Fatal(err)
		}
	}
	number := uint64(0)
	for _, c := range []struct {
		marker, says string
		patient      selftestPatience
	}{
		{busy, "did not come to its end", selftestPatience{300 * time.Millisecond, selftestDrain}},
		{left, "did not come to its end", selftestPatience{selftestWait, 300 * time.Millisecond}},
	} {
		if err := os.WriteFile(c.marker, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		ask(c.patient)
		number++
		b.await("the end", func(s *api.Status) bool {
			return s.Upgrade.Number == number && s.Upgrade.State == string(upgrade.Failed)
		})
		if r := b.record(); r.Cause != upgrade.CauseStage || len(r.Rejected) != 0 || !strings.Contains(r.Why, c.says) {
			t.Errorf("%s: %+v", filepath.Base(c.marker), r)
		}
		if slices.Contains(s.calls, "activate b") || slices.Contains(s.calls, "activate a") {
			t.Errorf("asked of the backend: %v", s.calls)
		}
		if err := os.Remove(c.marker); err != nil {
			t.Fatal(err)
		}
	}
	ask(selftestPatience{selftestWait, selftestDrain})
	b.ended()
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.goesOnTo(56, 120)
}

// TestSelftestThatFails is held against the program: it is not asked again.
func TestSelftestThatFails(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 55)
	file, _ := program(t, b.dir, "v2", nil)
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexit 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	release, err := rig.Release(t.Context(), file, "v2", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); err != nil {
		t.Fatal(err)
	}
	b.await("the end", upgradeIs(upgrade.Failed))
	if r := b.record(); r.Cause != upgrade.CauseArtifact || len(r.Rejected) != 1 {
		t.Errorf("%+v", r)
	}
	b.goesOnTo(56, 120)
}
