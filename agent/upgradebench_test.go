//go:build !nocentral

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// slotDir is a backend whose slots are files in a directory. What starts is the test's business, by the record, as it is weir-boot's.
type slotDir struct {
	dir    string
	booted upgrade.Slot
	calls  []string

	refuses error // what Activate says
	stays   error // what Revert says
}

func (s *slotDir) Probe(context.Context) (upgrade.Caps, error) {
	return upgrade.Caps{Slots: []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB}}, nil
}
func (s *slotDir) Booted(context.Context) (upgrade.Slot, error) { return s.booted, nil }
func (s *slotDir) Stage(_ context.Context, slot upgrade.Slot, a upgrade.Artifact, _ func(int)) error {
	b, err := io.ReadAll(io.NewSectionReader(a, 0, a.Target.Bytes))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.dir, string(slot)), b, 0o700)
}
func (s *slotDir) Activate(_ context.Context, slot upgrade.Slot, _ int) error {
	s.note("activate", slot) //nolint:errcheck // there is none
	return s.refuses
}
func (s *slotDir) Restart(context.Context) error { return s.note("restart", "") }
func (s *slotDir) Commit(context.Context) error  { return s.note("commit", s.booted) }
func (s *slotDir) Revert(_ context.Context, slot upgrade.Slot) error {
	s.note("revert", slot) //nolint:errcheck // there is none
	return s.stays
}
func (s *slotDir) Abort(_ context.Context, slot upgrade.Slot) error { return s.note("abort", slot) }
func (s *slotDir) note(what string, slot upgrade.Slot) error {
	s.calls = append(s.calls, strings.TrimSpace(what+" "+string(slot)))
	return nil
}

// writeRoot gives the file of a fleet's root.
func writeRoot(t *testing.T, dir string) string {
	t.Helper()
	root, err := rig.FleetRoot(t.Context())
	name := filepath.Join(dir, "root.json")
	if err == nil {
		err = os.WriteFile(name, root, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// program is an artifact that says of itself that it is a version, and its signed manifest. It is what that promises.
func program(t *testing.T, dir, version string, change func(*document.Release)) (file string, release []byte) {
	t.Helper()
	promised := &document.Release{Artifacts: []document.Artifact{{Compat: compat.Current()}}}
	if change != nil {
		change(promised)
	}
	return programSaying(t, dir, version, promised.Artifacts[0].Compat, change)
}

// programSaying says that it reads and writes something, whatever its manifest promises.
func programSaying(t *testing.T, dir, version string, says document.Compat, change func(*document.Release)) (file string, release []byte) {
	t.Helper()
	file = filepath.Join(dir, "weir-"+version)
	report, err := json.Marshal(SelftestReport{Version: version, Pipelines: 1, Compat: says})
	if err == nil {
		err = os.WriteFile(file, fmt.Appendf(nil, "#!/bin/sh\ncat > /dev/null\necho '%s'\n", report), 0o600)
	}
	if err == nil {
		release, err = rig.Release(t.Context(), file, version, change)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file, release
}

// newUpgradeBench is a bench that can be upgraded.
func newUpgradeBench(t *testing.T) (*bench, *slotDir) {
	b := newBench(t, pipelineNamed("p", "log")+pipelineNamed("q", "bbolt"))
	b.text = strings.Replace(b.text, "pipelines:", fmt.Sprintf("fleet: {root: %q}\nupgrade: {backend: self, probation: 0s}\npipelines:", writeRoot(t, b.dir)), 1)
	b.file = filepath.Join(b.dir, "weir.yaml")
	s := &slotDir{dir: t.TempDir(), booted: upgrade.Factory}
	b.options.Backend = s
	return b, s
}

// runsTo boots, and has messages 1 to n delivered.
func (b *bench) runsTo(s *slotDir, n int) {
	b.t.Helper()
	b.boot(s)
	b.put(1, n)
	b.await("delivery", at(uint64(n)))
}

// goesOnTo puts messages behind an upgrade, stops, and wants all from 1 to last, each once.
func (b *bench) goesOnTo(first, last int) {
	b.t.Helper()
	b.put(first, last)
	b.await("delivery", at(uint64(last)))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, last})
	}
	b.wantCounts(last / 10)
}

// boot starts what the record says, as weir-boot does.
func (b *bench) boot(s *slotDir) {
	b.t.Helper()
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}
	r, err := store.Load()
	if err != nil {
		b.t.Fatal(err)
	}
	n, link, _ := upgrade.Boot(r, now(), func(upgrade.Slot) bool { return true })
	if n.State != upgrade.Idle {
		if err := store.Save(&n); err != nil {
			b.t.Fatal(err)
		}
	}
	s.booted = link
	b.startWith(func(a *Agent) {
		if a.upgrader.least = time.Millisecond; a.fleet != nil && a.fleet.channel != nil {
			a.fleet.channel.Pace.Poll = 300 * time.Millisecond
		}
	})
}

// ended waits until the agent has ended by itself.
func (b *bench) ended() {
	b.t.Helper()
	select {
	case err := <-b.done:
		if err != nil {
			b.t.Fatal(err)
		}
	case <-time.After(patience):
		b.t.Fatalf("the agent did not end: %+v", b.agent.Status().Upgrade)
	}
}

func (b *bench) upgradeTo(version string, change func(*document.Release)) {
	b.t.Helper()
	file, release := program(b.t, b.dir, version, change)
	if err := b.agent.Upgrade(b.t.Context(), api.UpgradeOptions{File: file, Release: release}); err != nil {
		b.t.Fatal(err)
	}
}

func upgradeIs(state upgrade.State) func(*api.Status) bool {
	return func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.State == string(state) }
}
