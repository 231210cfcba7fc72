//go:build !nocentral

package agent

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/compat"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

func (b *bench) record() upgrade.Record {
	b.t.Helper()
	r, err := upgrade.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "upgrade")}.Load()
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

// TestUpgradeWithALiveSink: its results leave on trial, those of the others do not; going back is to the newest checkpoint, so that nothing that has left is made again. Where the program before could not go on from that, it is held
// as the others are.
func TestUpgradeWithALiveSink(t *testing.T) {
	for _, reads := range []bool{true, false} {
		b, s := newUpgradeBench(t)
		b.text = strings.ReplaceAll(b.text, "commit: immediate, http", "commit: immediate, probation: live, http")
		b.toTrialWith(s, func(r *document.Release) {
			if !reads { // its state is of a kind that the program before does not know
				c := compat.Current()
				c.State["window.later"] = document.Versions{Least: 1, Most: 1, Writes: 1}
				r.Artifacts[0].Compat = c
			}
		})
		want := 95
		if reads {
			b.await("the live sink delivers", func(*api.Status) bool { ids, _ := b.ids("p", "now"); return len(ids) == 120 })
			want = 120
		}
		if ids, _ := b.ids("p", "now"); len(ids) != want {
			t.Errorf("reads back %v: upstream holds %d results of a live sink on trial", reads, len(ids))
		}
		if held := b.agent.heldOf("p"); held["later"] == 0 || (held["now"] == 0) != reads {
			t.Errorf("reads back %v: held are %v", reads, held)
		}
		if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
			t.Fatal(err)
		}
		b.ended()
		b.boot(s)
		b.await("the way back", upgradeIs(upgrade.RolledBack))
		b.put(121, 140)
		b.await("delivery", at(140))
		b.halt()
		b.wantIDs("p", [2]int{1, 140})
		b.wantIDs("q", [2]int{1, 140})
		b.wantCounts(14)
	}
}

// heldOf is what waits, by sink.
func (a *Agent) heldOf(pipeline string) map[string]uint64 {
	held := map[string]uint64{}
	for _, l := range a.named(pipeline).running().links {
		held[l.UID] = l.Queue.Stats().Held
	}
	return held
}

// TestUpgradeUploadsSavepoints: the central store has each pipeline as far as S before the switch. Where there is none, an upgrade that asks for it is refused, and nothing is stopped.
func TestUpgradeUploadsSavepoints(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	at1 := b.agent.named("p").running()
	file, release := program(t, b.dir, "v2", nil)
	ask := api.UpgradeOptions{File: file, Release: release, UploadSavepoints: true}
	if err := b.agent.Upgrade(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	st := b.await("refusal", upgradeIs(upgrade.Failed))
	if st.Upgrade.Cause != string(upgrade.CauseGate) || !strings.Contains(st.Upgrade.Why, "central store") || b.agent.named("p").running() != at1 {
		t.Errorf("%+v", st.Upgrade)
	}
	b.halt()
	b.text = "central: {url: \"file://" + b.dir + "/central\", interval: 10m}\n" + b.text // no upload comes by itself
	b.boot(s)
	b.put(96, 120)
	b.await("delivery", at(120))
	if err := b.agent.Upgrade(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
	b.ended()
	r := b.record()
	if r.State != upgrade.Switched || len(r.Savings) != 2 {
		t.Fatalf("%+v", r)
	}
	for _, saving := range r.Savings {
		if _, up := b.fetchOf(saving.Name); !saving.Uploaded || uint64(up.Head.Position) != saving.Position {
			t.Errorf("the central store has %s as far as %d: %+v", saving.Name, up.Head.Position, saving)
		}
	}
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.put(121, 140)
	b.await("delivery", at(140))
	b.halt()
	b.wantIDs("p", [2]int{1, 140})
	b.wantCounts(14)
}

// TestUpgradeWithTooMuchHeld: with more held back than probation_bytes a program that only wants time has had it, and one that still lacks something is gone back from.
func TestUpgradeWithTooMuchHeld(t *testing.T) {
	for lacks, want := range map[bool]upgrade.State{false: upgrade.Committed, true: upgrade.RolledBack} {
		b, s := newUpgradeBench(t)
		b.text = strings.Replace(b.text, "probation: 0s", "probation: 0s, probation_bytes: 64KiB", 1)
		off := b.away()
		b.toTrial(s)
		b.stop()
		<-b.done
		b.text = strings.Replace(b.text, "probation_bytes: 64KiB", "probation_bytes: 1GiB", 1) // too late for this one
		off.Store(lacks)
		b.boot(s)
		b.await("trial", func(s *api.Status) bool {
			return s.Pipelines[0].State == string(PipelineRunning) && s.Pipelines[1].State == string(PipelineRunning)
		})
		for n := 121; n < 4121; n += 400 { // each row is some 20 bytes, in a record of the outbox
			b.put(n, n+399)
		}
		if lacks {
			b.ended()
			if r := b.record(); r.Cause != upgrade.CauseProbation || !strings.Contains(r.Why, "probation_bytes") || !strings.Contains(r.Why, "does not answer") {
				t.Errorf("%s: %s", r.Cause, r.Why)
			}
			off.Store(false)
			b.boot(s)
		}
		b.await("the end of the trial", upgradeIs(want))
		b.await("delivery", settled)
		b.halt()
		b.wantIDs("p", [2]int{1, 4120})
		b.wantIDs("q", [2]int{1, 4120})
	}
}

// TestFencedWithinAnUpgrade: a fence says nothing against a program. The upgrade stands and nothing of the new program leaves; taken back, the device goes on with the old program in a generation of its own, and the program may be
// asked for again.
func TestFencedWithinAnUpgrade(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.toTrial(s)
	b.agent.fenceOff(&identity.Fenced{Major: 2, Board: "another", Where: "a test"})
	b.await("the device is fenced", fenced)
	if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{}); err == nil || !strings.Contains(err.Error(), "fenced") {
		t.Errorf("an upgrade of a fenced device: %v", err)
	}
	b.end()
	b.boot(s)
	st := b.await("it starts fenced", func(s *api.Status) bool {
		return fenced(s) && s.Pipelines[0].State == string(PipelineStopped) && s.Identity.Stranded != nil
	})
	if st.Upgrade.State != string(upgrade.Probation) || st.Identity.Stranded.Records != 25 || st.Identity.Stranded.Results != 0 {
		t.Errorf("%+v, left %+v", st.Upgrade, st.Identity.Stranded)
	}
	b.end()
	tries := b.record().Tries
	for range upgrade.TriesNew + 2 { // started again, as after a power cut: it has nothing to show
		b.boot(s)
		b.await("it starts fenced", fenced)
		b.end()
	}
	if r := b.record(); r.State != upgrade.Probation || r.Tries != tries || len(r.Rejected) > 0 {
		t.Errorf("%s, %d tries of %d, rejected %v: %s", r.State, r.Tries, tries, r.Rejected, r.Why)
	}
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 95})
	}
	if _, err := Retake(t.Context(), b.parse()); err != nil {
		t.Fatal(err)
	}
	if r := b.record(); r.State != upgrade.Rollback || len(r.Rejected) > 0 {
		t.Errorf("%s, rejected %v", r.State, r.Rejected)
	}
	b.boot(s)
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.put(121, 140)
	b.await("delivery", at(140))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 140})
		_, generations := b.ids(p, "now")
		for i, g := range generations {
			if own := identity.GenerationsOf(3); (i < 95) != (g == 1) || i >= 95 && g != own {
				t.Errorf("row %d of %s is of generation %d", i+1, p, g)
			}
		}
	}
	b.wantCounts(14)
}

// helperSlots are slots whose helper has a say.
type helperSlots struct {
	*slotDir
	refused, killed string
}

func (*helperSlots) Helped() (taken, rescue string, err error)        { return "", "", nil }
func (h *helperSlots) Refused(s upgrade.Slot) (why string, err error) { return h.refused, nil }
func (h *helperSlots) Killed(string) (how string, err error)          { return h.killed, nil }

// TestARefusedSlotIsNotRejected: a program that the helper could not run has shown nothing; the pipelines go on, and it may be asked for again.
func TestARefusedSlotIsNotRejected(t *testing.T) {
	b, s := newUpgradeBench(t)
	h := &helperSlots{slotDir: s}
	b.options.Backend = h
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	h.refused = "no space left on device"
	s.booted = upgrade.Factory // what the helper links; it counts nothing
	b.startWith(func(a *Agent) { a.upgrader.least = time.Millisecond })
	st := b.await("the way back", upgradeIs(upgrade.RolledBack))
	if st.Upgrade.Cause != string(upgrade.CauseStage) || !strings.Contains(st.Upgrade.Why, "no space left") {
		t.Errorf("%+v", st.Upgrade)
	}
	b.put(96, 120)
	b.await("delivery", at(120))
	h.refused = ""
	b.upgradeTo("v2", nil)
	b.ended()
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.put(121, 140)
	b.await("delivery", at(140))
	b.halt()
	b.wantIDs("p", [2]int{1, 140})
	b.wantCounts(14)
}

// TestUpgradeCutsOnItsWayBack: before any pipeline starts, the outbox holds nothing behind S (RULES 26). Without the cut it does not.
func TestUpgradeCutsOnItsWayBack(t *testing.T) {
	for _, uncut := range []bool{false, true} {
		b, s := newUpgradeBench(t)
		b.toTrial(s)
		if err := b.agent.AbortUpgrade(t.Context(), "a test"); err != nil {
			t.Fatal(err)
		}
		b.ended()
		b.options.uncut = uncut
		looked := make(chan bool, 1)
		s.booted = upgrade.Factory
		b.startWith(func(a *Agent) {
			a.die = func(at string) {
				if at == "upgrade-undone" {
					looked <- a.endsAtSavepoints(t)
				}
			}
		})
		if cut := <-looked; cut == uncut {
			t.Errorf("planted %v: the outboxes hold nothing behind the savepoints: %v", uncut, cut)
		}
		b.await("the way back", upgradeIs(upgrade.RolledBack))
		b.end()
	}
}

func (a *Agent) endsAtSavepoints(t *testing.T) bool {
	cut := true
	for _, saving := range a.upgrader.backTo() {
		box, _, err := outbox.Open(outbox.Options{FS: disk.OS, Dir: filepath.Join(a.pipelineDir(saving.UUID), outboxDir), Config: a.reserve().Outbox(), Stamp: a.clock.Stamp, Codec: a.codec, Logger: a.log})
		if err != nil {
			t.Error(err)
			return false
		}
		ends := map[string]uint64{}
		for _, e := range saving.Ends {
			ends[e.UID] = e.Seq
		}
		for _, e := range box.Ends() {
			cut = cut && e.Seq <= ends[e.UID]
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
	return cut
}

// TestKilledOnTrial: a program that the watchdog has ended on trial is gone back from at its next start, whatever tries it has left.
func TestKilledOnTrial(t *testing.T) {
	b, s := newUpgradeBench(t)
	h := &helperSlots{slotDir: s}
	b.options.Backend = h
	b.toTrial(s)
	b.stop()
	<-b.done
	h.killed = "the watchdog ended it"
	b.boot(s)
	b.ended()
	r := b.record()
	if r.State != upgrade.Rollback || r.Tries != upgrade.TriesWrong || r.Cause != upgrade.CauseProbation || !strings.Contains(r.Why, "the watchdog") || len(r.Rejected) != 1 {
		t.Errorf("%s, %d tries: %s", r.State, r.Tries, fmt.Sprint(r.Cause, r.Why))
	}
	b.boot(s)
	b.await("the way back", upgradeIs(upgrade.RolledBack))
	b.put(121, 140)
	b.await("delivery", at(140))
	b.halt()
	b.wantIDs("p", [2]int{1, 140})
	b.wantCounts(14)
}
