package boot

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/signed"
)

// attack is what somebody does who has become the agent's user, or who can write to the central store: the helper runs what it ran before, and says why. says is part of what it says.
type attack struct {
	name string
	do   func(g *gateway, b []byte, rec *upgrade.Record)
	says string
}

var attacks = []attack{
	{"the slot file is a link", func(g *gateway, b []byte, _ *upgrade.Record) {
		elsewhere := filepath.Join(g.TempDir(), "elsewhere")
		g.must(os.WriteFile(elsewhere, b, 0o644))
		g.must(os.Remove(g.state(stagedFile)))
		g.must(os.Symlink(elsewhere, g.state(stagedFile)))
	}, "not a plain file"},
	{"the slot file has a second name", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Link(g.state(stagedFile), g.state("second")))
	}, "not a plain file"},
	{"the slot file is a pipe", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Remove(g.state(stagedFile)))
		g.must(syscall.Mkfifo(g.state(stagedFile), 0o644))
	}, "not a plain file"},
	{"the slot file is a directory", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Remove(g.state(stagedFile)))
		g.must(os.Mkdir(g.state(stagedFile), 0o755))
	}, "not a plain file"},
	{"the slot file is a link to a device", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Remove(g.state(stagedFile)))
		g.must(os.Symlink("/dev/zero", g.state(stagedFile)))
	}, "not a plain file"},
	{"the slot file is huge", func(g *gateway, _ []byte, _ *upgrade.Record) { g.must(os.Truncate(g.state(stagedFile), 1<<40)) }, "not a plain file"},
	{"the slot file is cut short", func(g *gateway, b []byte, _ *upgrade.Record) {
		g.must(os.Truncate(g.state(stagedFile), int64(len(b)-1)))
	}, "what was fetched is not"},
	{"the slot file has another byte", func(g *gateway, b []byte, _ *upgrade.Record) {
		c := bytes.Clone(b)
		c[len(c)/2] ^= 1
		g.must(os.WriteFile(g.state(stagedFile), c, 0o644))
	}, "what was fetched is not"},
	{"the slot file is gone", func(g *gateway, _ []byte, _ *upgrade.Record) { g.must(os.Remove(g.state(stagedFile))) }, "no such file"},
	{"the manifest is a pipe", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Remove(g.state(releaseFile)))
		g.must(syscall.Mkfifo(g.state(releaseFile), 0o644))
	}, "not a plain file"},
	{"the manifest is huge", func(g *gateway, _ []byte, _ *upgrade.Record) { g.must(os.Truncate(g.state(releaseFile), 1<<40)) }, "not a plain file"},
	{"a root document is a link", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Symlink(g.p.Provisioned, g.state("root-2.json")))
		g.must(os.Remove(g.state(releaseFile)))
	}, "root document 2 is not taken"},
	{"the directory of the upgrade is a link", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Rename(g.state(""), g.p.State+"/elsewhere"))
		g.must(os.Symlink("elsewhere", filepath.Join(g.p.State, upgradeDir)))
	}, "the record of upgrades cannot be read"},
	{"the record is a link", func(g *gateway, _ []byte, _ *upgrade.Record) {
		for _, n := range []string{"rec.0", "rec.1"} {
			g.must(os.Rename(g.state(n), g.state(n+".away")))
			g.must(os.Symlink(n+".away", g.state(n)))
		}
	}, "the record of upgrades cannot be read"},
	{"the record is a pipe", func(g *gateway, _ []byte, _ *upgrade.Record) {
		g.must(os.Remove(g.state("rec.0")))
		g.must(syscall.Mkfifo(g.state("rec.0"), 0o644))
	}, "the record of upgrades cannot be read"},
	{"the record is noise", func(g *gateway, _ []byte, _ *upgrade.Record) {
		for _, n := range []string{"rec.0", "rec.1"} {
			g.must(os.WriteFile(g.state(n), bytes.Repeat([]byte("noise"), 100), 0o644))
		}
	}, "the record of upgrades cannot be read"},
	{"the record names a way out of the slots", func(g *gateway, _ []byte, r *upgrade.Record) { r.Standby = "../../state/upgrade" }, "there is no such slot"},
	{"the record names a path", func(g *gateway, _ []byte, r *upgrade.Record) { r.Standby = upgrade.Slot(g.p.State) }, "there is no such slot"},
	{"the record has another digest", func(g *gateway, _ []byte, r *upgrade.Record) { r.Target.SHA256 = strings.Repeat("0", 64) }, "the release does not name this program"},
	{"the manifest is signed by deploy", func(g *gateway, b []byte, _ *upgrade.Record) { g.fetched(b, releaseOf(b), g.keys[signed.RoleDeploy]) }, "too few signatures"},
	{"the manifest is signed by root", func(g *gateway, b []byte, _ *upgrade.Record) { g.fetched(b, releaseOf(b), g.keys[signed.RoleRoot]) }, "too few signatures"},
	{"the manifest is signed by a stranger", func(g *gateway, b []byte, _ *upgrade.Record) { g.fetched(b, releaseOf(b), newKey(g.T)) }, "too few signatures"},
	{"the manifest is of another fleet", func(g *gateway, b []byte, _ *upgrade.Record) {
		r := releaseOf(b)
		r.Fleet = "other"
		g.fetched(b, r)
	}, "of fleet"},
	{"the manifest is for another processor", func(g *gateway, b []byte, _ *upgrade.Record) {
		r := releaseOf(b)
		r.Artifacts[0].Arch = "amd64"
		g.fetched(b, r)
	}, "the release does not name this program"},
	{"the manifest is for another backend", func(g *gateway, b []byte, _ *upgrade.Record) {
		r := releaseOf(b)
		r.Artifacts[0].Backend = "rauc"
		g.fetched(b, r)
	}, "the release does not name this program"},
	{"the release is older than the floor", func(g *gateway, b []byte, _ *upgrade.Record) {
		g.must(g.p.raiseFloor(2))
		a, err := g.p.about(upgrade.SlotA)
		g.must(err)
		a.SecureVersion = 2
		g.must(g.p.keepAbout(upgrade.SlotA, a))
	}, "below the floor"},
	{"the signature is damaged", func(g *gateway, b []byte, _ *upgrade.Record) {
		e, err := signed.Parse(read(g, g.state(releaseFile)))
		g.must(err)
		e.Signatures[0].Sig[0] ^= 1
		g.must(os.WriteFile(g.state(releaseFile), e.Bytes(), 0o644))
	}, "wrong signature"},
}

func read(g *gateway, name string) []byte {
	g.Helper()
	b, err := os.ReadFile(name)
	g.must(err)
	return b
}

// onTrialOf is a gateway that runs "old" from slot a and is asked to run "new".
func onTrialOf(t *testing.T) (*gateway, []byte, upgrade.Record) {
	t.Helper()
	g := newGateway(t)
	first, _ := g.installed("old", nil)
	b := program("new", 300_000)
	rec := upgrade.Record{Number: 2, State: upgrade.Switched, Target: g.fetched(b, releaseOf(b)), From: first.Target, Active: upgrade.SlotA, Standby: upgrade.SlotB, Tries: upgrade.TriesNew}
	g.save(rec)
	return g, b, rec
}

// TestAttacks: what ran before runs on, three starts long; nothing of the refused program stays in the helper's directory.
func TestAttacks(t *testing.T) {
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			g, b, rec := onTrialOf(t)
			before := rec
			a.do(g, b, &rec)
			if rec.Standby != before.Standby || rec.Target != before.Target {
				g.save(rec)
			}
			for range 3 {
				if got := g.start(); got != "old" {
					t.Errorf("%s runs: %q", got, g.said)
				}
			}
			if !strings.Contains(strings.Join(g.said, "\n"), a.says) {
				t.Errorf("it says %q, want %q", g.said, a.says)
			}
			for _, name := range []string{newFile, programFile, aboutFile} {
				if _, err := os.Stat(filepath.Join(g.p.slot(upgrade.SlotB), name)); err == nil {
					t.Errorf("%s is left", name)
				}
			}
		})
	}
	t.Run("planted: links are followed", func(t *testing.T) {
		g, b, rec := onTrialOf(t)
		g.p.planted = faultFollow
		attacks[0].do(g, b, &rec)
		if got := g.start(); got != "new" {
			t.Errorf("the planted fault is not found: %s runs", got)
		}
	})
}

// TestChangedBetweenVerifyingAndLinking: whatever the agent's user does to the file while the helper works, at any step, what runs is the program that was signed, or the old one.
func TestChangedBetweenVerifyingAndLinking(t *testing.T) {
	steps := stepsOf(t)
	swapped := func(t *testing.T, at int, planted fault) (string, bool) {
		g, b, _ := onTrialOf(t)
		g.p.planted = planted
		bad := bytes.Clone(b)
		copy(bad[4:], "EVIL")
		n := 0
		g.p.hook = func(string) {
			if n++; n == at {
				g.must(os.WriteFile(g.state(stagedFile), bad, 0o644))
			}
		}
		g.lines()
		name := filepath.Join(g.p.Dir, "current", "weir")
		return firstLine(read(g, name)), !bytes.Contains(read(g, name), []byte("EVIL"))
	}
	refused := 0
	for at := range steps {
		got, good := swapped(t, at+1, "")
		if !good || got != "new" && got != "old" {
			t.Errorf("changed in front of %q: %s runs", steps[at], got)
		}
		if got == "old" {
			refused++
		}
	}
	if refused == 0 {
		t.Error("no change was refused: the test shows nothing")
	}
	evil := false
	for at := range steps {
		_, good := swapped(t, at+1, faultVerifyFirst)
		evil = evil || !good
	}
	if !evil {
		t.Error("the planted fault is not found")
	}
}

// stepsOf are the steps of the start that installs.
func stepsOf(t *testing.T) (steps []string) {
	t.Helper()
	g, _, _ := onTrialOf(t)
	g.p.hook = func(s string) { steps = append(steps, s) }
	if got := g.start(); got != "new" {
		t.Fatalf("%s runs: %q", got, g.said)
	}
	return steps
}

// TestTheOrderOfSteps is the one that a power cut may fall between any two of: bytes before the name, the name before what vouches for it, that before the link.
func TestTheOrderOfSteps(t *testing.T) {
	want := "make directory b; sync directory slots; copy; sync copy; verify copy; remove about; sync directory b; rename program; sync directory b; write about.copy; sync about.copy; rename about.copy; sync directory b; write about.json; sync about.json; rename about.json; sync directory b; " +
		"symlink; rename link; sync directory boot; count; counted"
	if got := strings.Join(stepsOf(t), "; "); got != want {
		t.Errorf("%s", got)
	}
}

// TestKilledAtEachStep: wherever the helper is killed, a whole program is linked; the next start has the new one run, or the old one if the count was lost, and never one that was not counted.
func TestKilledAtEachStep(t *testing.T) {
	steps := stepsOf(t)
	for at := range steps {
		for _, reboots := range []bool{false, true} {
			g, _, _ := onTrialOf(t)
			n := 0
			g.p.hook = func(s string) {
				if n++; n == at+1 {
					panic(killed{s})
				}
			}
			got := g.start()
			if got == "new" && g.load().State != upgrade.Probation {
				t.Errorf("killed in front of %q: new runs, and the record is %s", steps[at], g.load().State)
			}
			if got != "new" && got != "old" {
				t.Errorf("killed in front of %q: %s runs", steps[at], got)
			}
			if reboots {
				g.reboot()
			}
			g.p.hook = nil
			tries := g.load().Tries
			if got := g.start(); got != "new" {
				t.Errorf("killed in front of %q: then %s runs: %q", steps[at], got, g.said)
			}
			if r := g.load(); r.State != upgrade.Probation || r.Tries != tries-1 {
				t.Errorf("killed in front of %q: then %s, %d tries of %d", steps[at], r.State, r.Tries, tries)
			}
		}
	}
}

// TestTheDiskIsFull: while copying. What ran before runs on, and the space is given back.
func TestTheDiskIsFull(t *testing.T) {
	g, _, _ := onTrialOf(t)
	small := filepath.Join(t.TempDir(), "small")
	g.must(os.Mkdir(small, 0o755))
	if err := syscall.Mount("tmpfs", small, "tmpfs", 0, "size=400k"); err != nil {
		t.Skipf("NOT TESTED HERE: a disk that is full: a file system of its own cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(small, syscall.MNT_DETACH) })
	g.must(os.CopyFS(filepath.Join(small, "boot"), os.DirFS(g.p.Dir)))
	g.p.Dir = filepath.Join(small, "boot")
	g.must(os.Chmod(g.p.program(upgrade.SlotA), 0o755))
	if got := g.start(); got != "old" || !strings.Contains(strings.Join(g.said, "\n"), syscall.ENOSPC.Error()) {
		t.Errorf("%s runs: %q", got, g.said)
	}
	if _, err := os.Stat(filepath.Join(g.p.slot(upgrade.SlotB), newFile)); err == nil {
		t.Error("the copy is left")
	}
}

// TestTheTimeIsBounded: a run whose time is over runs what ran before.
func TestTheTimeIsBounded(t *testing.T) {
	g, _, _ := onTrialOf(t)
	g.start() // of slot a the digest is in memory
	g.must(os.RemoveAll(g.p.slot(upgrade.SlotB)))
	rec := g.load()
	rec.State = upgrade.Switched
	g.save(rec)
	g.p.Limit = time.Nanosecond
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	g.p.Start = "late"
	if _, err := g.p.Link(ctx); err != nil {
		t.Fatal(err)
	}
	if got := g.runs(); got == "new" || got == "nothing" {
		t.Errorf("%s runs", got)
	}
}

// TestOthersDirectories: what others may write to is not taken for the helper's own.
func TestOthersDirectories(t *testing.T) {
	g := newGateway(t)
	g.installed("one", nil)
	g.must(os.Remove(g.state(stagedFile))) // it would be mended
	g.must(os.Chmod(g.p.program(upgrade.SlotA), 0o777))
	if got := g.start(); got != "factory" || g.rescue() { // it ran before, and can read the state or says that it cannot
		t.Errorf("%s runs: %q", got, g.said)
	}
	g.must(os.Chmod(g.p.program(upgrade.SlotA), 0o755))
	g.must(os.Chmod(filepath.Join(g.p.slot(upgrade.SlotA), aboutFile), 0o666))
	if got := g.start(); got != "factory" {
		t.Errorf("%s runs: %q", got, g.said)
	}
	g.must(os.Chmod(g.p.Provisioned, 0o666))
	if _, _, err := g.p.ownTrust(); err != nil { // the helper's own copy is as good
		t.Error(err)
	}
	g.must(os.Remove(filepath.Join(g.p.Dir, rootFile)))
	if _, _, err := g.p.ownTrust(); !errors.Is(err, errNoRoot) || !errors.Is(err, errStrange) {
		t.Errorf("a root document that anybody may write: %v", err)
	}
}

// FuzzRecord: whatever the agent's user writes there, a start ends with a whole program, and makes nothing outside of the helper's directory.
func FuzzRecord(f *testing.F) {
	f.Add([]byte("WURC"), []byte{})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		g := newGateway(t)
		g.must(os.MkdirAll(g.state(""), 0o755))
		g.must(os.WriteFile(g.state("rec.0"), a, 0o644))
		g.must(os.WriteFile(g.state("rec.1"), b, 0o644))
		if got := g.start(); got != "factory" {
			t.Errorf("%s runs", got)
		}
	})
}

// TestDrawnRecords: well-formed records with drawn members, as a stranger may write them with the right checksum.
func TestDrawnRecords(t *testing.T) {
	seed := rand.Uint64()
	draw := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	g, b, rec := onTrialOf(t)
	other := program("other", 50_000)
	states := []upgrade.State{upgrade.Accepted, upgrade.Switched, upgrade.Probation, upgrade.Committing, upgrade.Committed, upgrade.Rollback, upgrade.Restoring, upgrade.RolledBack, upgrade.Failed}
	slots := []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB, "c", "../x", "/", "."}
	for n := range 300 {
		r := rec
		r.Number = draw.Uint64N(4)
		r.State, r.Active, r.Standby, r.Tries = states[draw.IntN(len(states))], slots[draw.IntN(len(slots))], slots[draw.IntN(len(slots))], draw.IntN(5)
		if draw.IntN(3) == 0 {
			r.Target.SHA256 = digestOf(other)
		}
		r.Rescue = draw.IntN(5) == 0
		if r.Check() != nil {
			continue
		}
		g.save(r)
		g.must(os.WriteFile(g.state(stagedFile), [][]byte{b, other}[draw.IntN(2)], 0o644))
		if draw.IntN(4) == 0 {
			g.reboot()
		}
		if got := g.start(); got != "old" && got != "new" && got != "factory" {
			t.Fatalf("record %d, %+v: %s runs", n, r, got)
		}
	}
	for _, dir := range []string{filepath.Dir(g.p.Dir), g.p.State} {
		entries, err := os.ReadDir(dir)
		g.must(err)
		for _, e := range entries {
			if !strings.Contains(" state boot run agent-run factory etc upgrade ", " "+e.Name()+" ") {
				t.Errorf("%s was made", filepath.Join(dir, e.Name()))
			}
		}
	}
}
