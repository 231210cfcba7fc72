//go:build !nocentral

package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// TestUpgrade: the new program goes on with state and sequences; until it is committed nothing that it made leaves; then upstream holds each result once.
func TestUpgrade(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	b.boot(s)
	if s.booted != upgrade.SlotA {
		t.Fatalf("slot %s runs", s.booted)
	}
	b.put(96, 120)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.await("delivery", at(120))
	if got := b.agent.Status().Identity.Incarnation; got != "1.1" {
		t.Errorf("incarnation %s", got)
	}
	if _, held := b.agent.journal.Stats().Holders[upgradeHold+b.agent.registry.UUID("p")]; held {
		t.Error("the journal still holds the savepoint")
	}
	b.halt()
	b.boot(s)
	b.goesOnTo(121, 140)
	if got := strings.Join(s.calls, ", "); got != "activate a, restart, commit a" {
		t.Errorf("the backend was asked to %s", got)
	}
}

// toTrial brings a bench to a program on trial that does not pass: one gate is kept shut.
func (b *bench) toTrial(s *slotDir) { b.t.Helper(); b.toTrialWith(s, nil) }

func (b *bench) toTrialWith(s *slotDir, change func(*document.Release)) {
	b.t.Helper()
	b.runsTo(s, 95)
	b.upgradeTo("v2", change)
	b.ended()
	store := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}
	r, err := store.Load()
	if err != nil {
		b.t.Fatal(err)
	}
	r.Probation = time.Hour.Milliseconds() / 4 // the limit counts from its end
	if err := store.Save(&r); err != nil {
		b.t.Fatal(err)
	}
	b.boot(s)
	b.put(96, 120)
	b.await("the new program works", func(s *api.Status) bool {
		return upgradeIs(upgrade.Probation)(s) && s.Pipelines[0].Checkpoint.Position >= 120 && s.Pipelines[1].Checkpoint.Position >= 120
	})
}

// TestUpgradeGoesBack: what the new program made is void, the old one makes it; upstream never sees the difference. The digest is rejected.
func TestUpgradeGoesBack(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	for _, p := range []string{"p", "q"} {
		if ids, _ := b.ids(p, "now"); len(ids) != 95 {
			t.Errorf("upstream holds %d results of %s while the program is on trial", len(ids), p)
		}
	}
	if st := b.agent.Status().Upgrade; st.Held == 0 || st.Waits == "" || st.Slot != "a" {
		t.Errorf("%+v", st)
	}
	if err := b.agent.named("p").ask(t.Context(), command{fail: errors.New("planted")}); err != nil {
		t.Fatal(err)
	}
	b.ended()
	b.boot(s)
	if s.booted != upgrade.Factory {
		t.Fatalf("slot %s runs", s.booted)
	}
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.put(121, 140)
	b.await("delivery", at(140))
	st := b.agent.Status()
	if st.Identity.Incarnation != "1.2" || !strings.Contains(st.Upgrade.Why, "planted") || !strings.Contains(strings.Join(st.Problems, ";"), "gone back from") {
		t.Errorf("%+v %+v", st.Identity, st.Upgrade)
	}
	for _, i := range b.agent.identity.Lineage {
		if i.Minor == 1 && i.Major == 1 {
			t.Error("checkpoints of the program that was gone back from are of the lineage")
		}
	}
	file, release := program(t, b.dir, "v2", nil)
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); !errors.Is(err, upgrade.ErrRejected) {
		t.Errorf("the same program again: %v", err)
	}
	if st := b.agent.Status().Upgrade; len(st.Rejected) != 1 || st.Rejected[0] != b.record().Target.SHA256 {
		t.Errorf("%+v", st)
	}
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release, Again: true}); err != nil { // the operator knows better
		t.Fatal(err)
	}
	b.ended()
	b.boot(s)
	st = b.await("commit", upgradeIs(upgrade.Committed))
	if len(st.Upgrade.Rejected) > 0 {
		t.Errorf("%+v", st.Upgrade)
	}
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 140})
	}
	b.wantCounts(14)
}

// TestUpgradeGoesBackOverWhatItCannotRead: stores that the new program has spoiled are set aside, and the savepoint has what they had.
func TestUpgradeGoesBackOverWhatItCannotRead(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
		t.Fatal(err)
	}
	b.ended()
	spoiled := 0
	err := filepath.WalkDir(filepath.Join(b.dir, "state", "pipelines"), func(name string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if in := filepath.Base(filepath.Dir(name)); in == statedir.LogStoreDir || strings.HasPrefix(in, "s-") || d.Name() == statedir.BoltStoreFile {
			spoiled++
			return os.WriteFile(name, []byte(strings.Repeat("spoiled ", 1000)), 0o600)
		}
		return nil
	})
	if err != nil || spoiled < 4 {
		t.Fatal(spoiled, err)
	}
	b.boot(s)
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.goesOnTo(121, 140)
}

// TestUpgradeAndOthersExcludeEachOther: clear refusals.
func TestUpgradeAndOthersExcludeEachOther(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	out, _ := b.apply(withEvens(b.text, b.url), api.ApplyOptions{})
	if out.Result != api.ApplyRefused || !strings.Contains(out.Error, "an upgrade is under way") {
		t.Errorf("an apply: %+v", out)
	}
	if _, err := b.agent.CreateSavepoint(t.Context(), "p", api.SavepointOptions{}); !errors.Is(err, errUpgrading) {
		t.Errorf("a savepoint: %v", err)
	}
	if err := b.agent.StopPipeline(t.Context(), "p"); !errors.Is(err, errUpgrading) {
		t.Errorf("a stop: %v", err)
	}
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: "/x"}); !errors.Is(err, errUpgrading) {
		t.Errorf("a restore: %v", err)
	}
	file, release := program(t, b.dir, "v3", nil)
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); !errors.Is(err, errUpgrading) {
		t.Errorf("a second upgrade: %v", err)
	}
	b.end()
}

// TestUpgradeRefusals: nothing is touched.
func TestUpgradeRefusals(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 20)
	good, release := program(t, b.dir, "v2", nil)
	_, older := program(t, t.TempDir(), "v2", func(r *document.Release) { r.Fleet = "another" })
	_, arch := program(t, t.TempDir(), "v2", func(r *document.Release) { r.Artifacts[0].Arch = "arm" })
	other := filepath.Join(b.dir, "other")
	if err := os.WriteFile(other, []byte("another file"), 0o600); err != nil {
		t.Fatal(err)
	}
	wrong, err := signed.Parse(release)
	if err != nil {
		t.Fatal(err)
	}
	wrong, err = signed.Seal(t.Context(), signed.TypeRelease, wrong.Payload, rig.FleetKey("deploy"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		o    api.UpgradeOptions
		want string
	}{
		{api.UpgradeOptions{File: good, Release: wrong.Bytes()}, "release"},
		{api.UpgradeOptions{File: good, Release: older}, "fleet"},
		{api.UpgradeOptions{File: good, Release: arch}, "arm"},
		{api.UpgradeOptions{File: other, Release: release}, "sha256"},
		{api.UpgradeOptions{File: good + "x", Release: release}, "no such file"},
		{api.UpgradeOptions{File: good, Release: []byte("{}")}, "release"},
	} {
		if err := b.agent.Upgrade(t.Context(), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	if st := b.agent.Status().Upgrade; st != nil {
		t.Errorf("%+v", st)
	}
	if err := b.agent.AbortUpgrade(t.Context(), ""); err == nil {
		t.Error("nothing is given up")
	}
	// A program that fails its self-test is rejected, and nothing was stopped.
	at := b.agent.named("p").running()
	b.upgradeTo("v2", func(r *document.Release) { r.Version = "v3" })
	b.await("refusal", upgradeIs(upgrade.Failed))
	if st := b.agent.Status().Upgrade; !strings.Contains(st.Why, "says that it is version v2") || b.agent.named("p").running() != at {
		t.Errorf("%+v", st)
	}
	// So is one whose manifest promises what it does not have: the gates have judged by that.
	says := compat.Current()
	says.Formats["outbox records"] = document.Versions{Least: 3, Most: 3, Writes: 3}
	broken, release := programSaying(t, b.dir, "v4", says, nil)
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: broken, Release: release}); err != nil {
		t.Fatal(err)
	}
	b.await("refusal", func(s *api.Status) bool {
		return upgradeIs(upgrade.Failed)(s) && strings.Contains(s.Upgrade.Why, "promises that it reads outbox records from version 2 to 2, and the program reads 3 to 3")
	})
	if b.agent.named("p").running() != at {
		t.Error("a pipeline was stopped for it")
	}
	b.halt()
}

// TestUpgradeThatDoesNotDrain: pipelines that have stopped go on.
func TestUpgradeThatDoesNotDrain(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	if err := os.MkdirAll(filepath.Join(b.dir, "state", "savepoints", "upgrade-1-q.savepoint", "x"), 0o700); err != nil { // q's cannot be written
		t.Fatal(err)
	}
	b.upgradeTo("v2", nil)
	b.await("failure", upgradeIs(upgrade.Failed))
	b.put(96, 120)
	b.await("delivery", at(120))
	if st := b.agent.Status(); st.Upgrade.Cause != string(upgrade.CauseDrain) || st.Identity.Incarnation != "1.0" {
		t.Errorf("%+v", st.Upgrade)
	}
	if _, held := b.agent.journal.Stats().Holders[upgradeHold+b.agent.registry.UUID("p")]; held {
		t.Error("the journal still holds the savepoint")
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 120})
	b.wantIDs("q", [2]int{1, 120})
}

// withoutJournal: a journal that does not open keeps nobody from rescue, and stays as it is; an upgrade can be asked for from there.
func (b *bench) withoutJournal(s *slotDir) {
	b.t.Helper()
	name := filepath.Join(b.dir, "state", "journal")
	registry, err := os.ReadFile(filepath.Join(b.dir, "state", "pipelines.json"))
	if err == nil {
		err = os.Rename(name, name+".kept")
	}
	if err == nil {
		err = os.WriteFile(name, []byte("no directory"), 0o600)
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.options.ControlOnly = false
	if _, err := New(b.parse(), b.options); err == nil || !strings.Contains(err.Error(), "open journal") {
		b.t.Fatalf("it starts without its journal: %v", err)
	}
	b.options.ControlOnly = true
	b.boot(s)
	b.await("control", func(s *api.Status) bool {
		return s.Upgrade != nil && strings.Contains(s.Upgrade.NotUsable, "open journal") && s.Pipelines[0].State == string(PipelineStopped)
	})
	b.end()
	after, err := os.ReadFile(filepath.Join(b.dir, "state", "pipelines.json"))
	if err != nil || string(after) != string(registry) {
		b.t.Errorf("the registry was\n%s\nand is\n%s\n%v", registry, after, err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "no directory" {
		b.t.Errorf("the journal was changed: %q, %v", text, err)
	}
	if err := errors.Join(os.Remove(name), os.Rename(name+".kept", name)); err != nil {
		b.t.Fatal(err)
	}
}

// TestControlOnly: no broker, no pipeline; the status tells.
func TestControlOnly(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.halt()
	b.options.ControlOnly = true
	b.boot(s)
	st := b.await("control", func(s *api.Status) bool {
		return s.Upgrade != nil && s.Upgrade.NotUsable != "" && s.Pipelines[0].State == string(PipelineStopped)
	})
	if len(st.Problems) == 0 {
		t.Errorf("%+v", st)
	}
	if out, _ := b.apply(b.text, api.ApplyOptions{}); out.Result != api.ApplyRefused {
		t.Errorf("%+v", out)
	}
	b.end()
	b.withoutJournal(s)
	b.options.ControlOnly = false
	b.boot(s)
	b.put(96, 100)
	b.await("delivery", at(100))
	b.halt()
	b.wantIDs("p", [2]int{1, 100})
}
