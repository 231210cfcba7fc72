//go:build !nocentral

package agent

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/store/disk"
)

// TestRescueWithoutWhatItCannotRead: the registry, the identity, the fence and the record of applied configs are damaged, or of a newer weir. A start refuses each; a rescue says which, leaves it as it is, and is directed from afar: diagnostics,
// and another program, which can read it.
func TestRescueWithoutWhatItCannotRead(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.put(1, 95)
	b.await("delivery", at(95))
	b.halt()
	state := filepath.Join(b.dir, "state")
	damaged := map[string][]byte{"pipelines.json": []byte(`{"format":99,"gateway":"test"}`), "incarnation": []byte("no record"), "fenced": []byte("{"), "apply/record": []byte("no record either")}
	kept := map[string][]byte{}
	for name := range damaged {
		kept[name], _ = os.ReadFile(filepath.Join(state, name)) // nil: there is none
	}
	lay := func(files map[string][]byte) {
		t.Helper()
		for name, text := range files {
			var err error
			if text == nil {
				err = os.RemoveAll(filepath.Join(state, name))
			} else if err = os.MkdirAll(filepath.Dir(filepath.Join(state, name)), 0o700); err == nil {
				err = os.WriteFile(filepath.Join(state, name), text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, text := range damaged {
		lay(map[string][]byte{name: text})
		if a, err := New(b.parse(), b.options); err == nil || !strings.Contains(err.Error(), filepath.Base(name)) && !strings.Contains(err.Error(), "apply") {
			t.Errorf("%s: a start takes it: %v", name, err)
			if err == nil {
				_ = a.Close()
			}
		}
		lay(map[string][]byte{name: kept[name]})
	}

	lay(damaged)
	b.options.ControlOnly = true
	b.up()
	s := b.await("the rescue", func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.NotUsable != "" })
	for _, what := range []string{"the registry of pipelines", "who this device is", "which config runs"} {
		if !strings.Contains(s.Upgrade.NotUsable, what) {
			t.Errorf("it does not tell of %s: %s", what, s.Upgrade.NotUsable)
		}
	}
	r := b.ends(b.order(document.DoDiagnostics, func(c *document.Command) { c.Upload = true }), document.ResultDone)
	if has := contents(t, b.file(r.Files[0])); !strings.Contains(has["status.json"], "the registry of pipelines") {
		t.Errorf("diagnostics: %.400s", has["status.json"])
	}
	release := b.release("9.9.1", nil)
	n := b.order(document.DoUpgrade, func(c *document.Command) { c.Release, c.Policy = release, &document.Policy{Savepoint: "best-effort"} })
	b.ended()
	for name, want := range damaged {
		if is, err := os.ReadFile(filepath.Join(state, name)); err != nil || !bytes.Equal(is, want) {
			t.Errorf("%s was %q and is %q, %v", name, want, is, err)
		}
	}
	lay(kept) // what the program that comes can read
	b.options.ControlOnly = false
	b.up()
	b.ends(n, document.ResultDone)
	b.put(96, 120)
	b.await("delivery", at(120))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 120})
	}
}

// TestRescueFromWithinAnUpgrade: where no slot can be run any more, another program may be asked for; what the upgrade that was under way has saved is still what it goes on from.
func TestRescueFromWithinAnUpgrade(t *testing.T) {
	b, s := newUpgradeBench(t)
	b.runsTo(s, 95)
	b.upgradeTo("v2", nil)
	b.ended()
	was := b.record()
	if was.State != upgrade.Switched || len(was.Savings) != 2 {
		t.Fatalf("%+v", was)
	}
	s.booted, b.options.ControlOnly = upgrade.Factory, true // no slot could be verified, so that none was counted
	b.startWith(func(*Agent) {})
	b.await("the rescue", func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.NotUsable != "" })
	b.upgradeTo("v3", nil)
	b.ended()
	r := b.record()
	if r.State != upgrade.Switched || r.Target.Version != "v3" || len(r.Savings) != 2 || r.Savings[0].SHA256 != was.Savings[0].SHA256 {
		t.Fatalf("%+v", r)
	}
	b.options.ControlOnly = false
	b.boot(s)
	b.await("commit", upgradeIs(upgrade.Committed))
	b.goesOnTo(96, 120)
}

// TestRescueFromWithinAnApply: an apply that was under way stands in a rescue, which carries nothing out, and keeps no help from coming; what the new program is, goes on with it once it is committed.
func TestRescueFromWithinAnApply(t *testing.T) {
	for _, state := range []apply.State{apply.Probation, apply.Returning} {
		b, s := newUpgradeBench(t)
		b.text = strings.Replace(b.text, "pipelines:", shortProbation, 1)
		b.boot(s)
		b.agent.applier.over = func() bool { return false }
		b.put(1, 95)
		b.await("delivery", at(95))
		done := b.asked(otherRows(b))
		b.await("probation", onProbation)
		file, release := program(t, b.dir, "v8", nil)
		if err := b.agent.Upgrade(t.Context(), api.UpgradeOptions{File: file, Release: release}); !errors.Is(err, ErrApplying) || !strings.Contains(err.Error(), "ask for the upgrade again then") {
			t.Errorf("%v", err)
		}
		b.end()
		<-done
		store := apply.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "apply")}
		rec, err := store.Load()
		if err != nil || rec.State != apply.Probation {
			t.Fatalf("%+v, %v", rec, err)
		}
		if rec.State = state; state != apply.Probation {
			rec.Why = "a test"
		}
		if err := store.Save(&rec); err != nil {
			t.Fatal(err)
		}
		b.options.ControlOnly = true
		b.startWith(func(*Agent) {})
		b.await("the rescue", func(s *api.Status) bool { return s.Upgrade != nil && s.Upgrade.NotUsable != "" })
		b.upgradeTo("v9", nil)
		b.ended()
		if is, err := store.Load(); err != nil || is.State != state {
			t.Errorf("the rescue has made %q of %q, %v", is.State, state, err)
		}
		b.options.ControlOnly = false
		b.boot(s)
		b.await("commit", upgradeIs(upgrade.Committed))
		want, rows := apply.RolledBack, [2]int{1, 120}
		if state == apply.Probation {
			want = apply.Committed
		}
		b.await("the apply ends as "+string(want), func(s *api.Status) bool { return s.Apply.State == string(want) })
		b.put(96, 120)
		b.await("delivery", at(120))
		b.halt()
		b.wantIDs("q", rows)
		if state == apply.Returning {
			b.wantIDs("p", rows)
			continue
		}
		rowsOfNew := [][2]int{{1, 95}, {1096, 1120}}
		b.wantIDs("p", rowsOfNew...)
	}
}

// TestNamelessRescue: without the registry, and without a name in the config, it is not known whose orders to follow.
func TestNamelessRescue(t *testing.T) {
	b := newFleetBench(t)
	b.up()
	b.halt()
	fence := filepath.Join(b.dir, "state", "fenced")
	if err := errors.Join(disk.WriteFileAtomic(disk.OS, filepath.Join(b.dir, "state", "pipelines.json"), []byte("{")), disk.WriteFileAtomic(disk.OS, fence, []byte("{"))); err != nil {
		t.Fatal(err)
	}
	b.text = strings.Replace(b.text, "gateway: test\n", "", 1)
	b.options.ControlOnly = true
	b.boot(b.slots)
	if s := b.await("the rescue", func(s *api.Status) bool { return s.Fleet != nil }); !strings.Contains(s.Fleet.Broken, "set gateway in the config") || !strings.Contains(s.Upgrade.NotUsable, "whether this device is fenced") {
		t.Errorf("%+v, %+v", s.Fleet, s.Upgrade)
	}
	b.end()
	if text, err := os.ReadFile(fence); err != nil || string(text) != "{" {
		t.Errorf("the note of a fence is %q, %v", text, err)
	}
}
