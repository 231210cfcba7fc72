package rauc

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
)

// TestRefused: what RAUC takes not, its reason, and that nothing starts of it.
func TestRefused(t *testing.T) {
	m := start(t)
	whole := mustBundle(t, "one", "right", "gateway")
	text := make([]byte, whole.Target.Bytes)
	if _, err := whole.ReadAt(text, 0); err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, text...)
	flipped[len(text)/2] ^= 1
	for name, c := range map[string]struct {
		a    upgrade.Artifact
		says string
	}{
		"another signer":     {mustBundle(t, "one", "stranger", "gateway"), "signature"},
		"another compatible": {mustBundle(t, "one", "right", "kettle"), "ompatible"},
		"cut short":          {artifactOf(text[:len(text)-9]), ""},
		"half of it":         {artifactOf(text[:len(text)/2]), ""},
		"a bit flipped":      {artifactOf(flipped), "signature"},
		"no bundle at all":   {artifactOf([]byte(strings.Repeat("nothing ", 4096))), ""},
	} {
		b := m.backend()
		err := b.Stage(t.Context(), slotB, c.a, nil)
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
		t.Logf("%s: %v", name, err)
		if err := b.Activate(t.Context(), slotB, 3); !errors.Is(err, ErrSlot) {
			t.Errorf("%s: activated: %v", name, err)
		}
		if s, err := m.boot(); err != nil || s != slotA {
			t.Errorf("%s: %s runs, %v", name, s, err)
		}
	}
	if _, err := os.Stat(filepath.Join(m.path("state"), "upgrade", spoolFile)); err == nil {
		t.Error("the copy of a bundle is left over")
	}
}

// TestOrder: the slot is bad before it is written, and the loader hears of another first slot from Activate alone.
func TestOrder(t *testing.T) {
	m := start(t)
	dir := m.path("bundles")
	a := mustBundle(t, "one", "right", "gateway")
	text := make([]byte, a.Target.Bytes)
	a.ReadAt(text, 0)
	a.Path, a.ReaderAt = filepath.Join(dir, "one.raucb"), nil
	if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(a.Path, text, 0o640)); err != nil {
		t.Fatal(err)
	}
	b, most := m.backend(), 0
	if err := b.Stage(t.Context(), slotB, a, func(p int) { most = max(most, p) }); err != nil || most != 1000 {
		t.Fatalf("progress %d: %v", most, err)
	}
	log := m.env("log")
	if !strings.Contains(log, "set-state B bad") || strings.Contains(log, "set-primary") {
		t.Errorf("staged: the loader was asked\n%s", log)
	}
	if err := b.Activate(t.Context(), slotB, 3); err != nil {
		t.Fatal(err)
	}
	if log := m.env("log"); !strings.Contains(log, "set-primary B") {
		t.Errorf("activated: the loader was asked\n%s", log)
	}
	// Staged, then written by somebody else: what is there is not what was staged.
	other := m.backend()
	other.State = m.path("stranger")
	if err := errors.Join(b.Stage(t.Context(), slotB, a, nil), other.Stage(t.Context(), slotB, mustBundle(t, "two", "right", "gateway"), nil)); err != nil {
		t.Fatal(err)
	}
	if err := b.Activate(t.Context(), slotB, 3); !errors.Is(err, ErrSlot) {
		t.Errorf("another's installation was activated: %v", err)
	}
}

// TestLoaderThatDoesNotArm: set-primary alone leaves the slot bad.
func TestLoaderThatDoesNotArm(t *testing.T) {
	m := start(t)
	b := m.backend()
	if err := errors.Join(m.setEnv("unarmed", ""), b.Stage(t.Context(), slotB, mustBundle(t, "one", "right", "gateway"), nil)); err != nil {
		t.Fatal(err)
	}
	if err := b.Activate(t.Context(), slotB, 3); !errors.Is(err, ErrNotArmed) {
		t.Errorf("got %v", err)
	}
	if p := m.env("primary"); p != "A" {
		t.Errorf("%s is first", p)
	}
	b.planted = faultArmed
	if err := b.Activate(t.Context(), slotB, 3); err != nil {
		t.Errorf("the planted mistake is not in force: %v", err)
	}
}

// TestActivatesByItself: a RAUC that makes first what it installs is refused, or found out.
func TestActivatesByItself(t *testing.T) {
	m := start(t)
	m.extra = ""
	_, cert, err := shop.signer("right")
	if err := errors.Join(err, m.writeConf(cert)); err != nil {
		t.Fatal(err)
	}
	if _, err := m.boot(); err != nil {
		t.Fatal(err)
	}
	b := m.backend()
	if _, err := b.Probe(t.Context()); !errors.Is(err, ErrSystem) {
		t.Errorf("probe: %v", err)
	}
	b.Conf = m.path("unreadable")
	if _, err := b.Probe(t.Context()); err != nil {
		t.Errorf("probe without system.conf: %v", err)
	}
	if err := b.Stage(t.Context(), slotB, mustBundle(t, "one", "right", "gateway"), nil); !errors.Is(err, ErrSystem) {
		t.Errorf("stage: %v", err)
	}
	if s, err := m.boot(); err != nil || s != slotA {
		t.Errorf("%s runs, %v", s, err)
	}
}

// TestFallback: every start of a new system is used up; the old one runs, says so, and goes on by Revert.
func TestFallback(t *testing.T) {
	m := start(t)
	b, a := m.backend(), mustBundle(t, "one", "right", "gateway")
	if err := errors.Join(b.Stage(t.Context(), slotB, a, nil), b.Activate(t.Context(), slotB, 3)); err != nil {
		t.Fatal(err)
	}
	for i := range triesOfLoader + 2 {
		s, err := m.boot()
		said, wrong := b.Booted(t.Context())
		if want := map[bool]upgrade.Slot{true: slotB, false: slotA}[i < triesOfLoader]; errors.Join(err, wrong) != nil || s != want || said != want {
			t.Fatalf("start %d: %s runs, the backend says %s, want %s: %v", i, s, said, want, errors.Join(err, wrong))
		}
	}
	if err := errors.Join(b.Revert(t.Context(), slotA), b.Keep(t.Context())); err != nil {
		t.Fatal(err)
	}
	if m.env("primary") != "A" || m.env("state.A") != "good" || m.env("state.B") != "bad" {
		t.Errorf("reverted: %s is first, A %s, B %s", m.env("primary"), m.env("state.A"), m.env("state.B"))
	}
	// The slot that was gone back from is whole, and known to be; one that never was is no way back.
	if err := os.Remove(b.noteName()); err != nil {
		t.Fatal(err)
	}
	if err := b.Revert(t.Context(), slotB); !errors.Is(err, ErrSlot) {
		t.Errorf("reverted to a slot of which nothing is known: %v", err)
	}
}

func TestRestart(t *testing.T) {
	b := &Backend{Reboot: filepath.Join(t.TempDir(), "reboot-request"), BootID: "this", taken: 1}
	if err := b.Restart(t.Context()); !errors.Is(err, ErrNoReboot) {
		t.Errorf("nobody takes it: %v", err)
	}
	if _, err := os.Stat(b.Reboot); err == nil {
		t.Error("a request that nobody took is left over")
	}
	if err := (taken{&Backend{Reboot: b.Reboot, BootID: "this"}}).Restart(t.Context()); err != nil {
		t.Errorf("taken: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Restart(gone); err == nil {
		t.Error("asked for, though the context has ended")
	}
}

func TestPlaces(t *testing.T) {
	slot := func(name, class, bootname string) any {
		return []any{name, map[string]any{"class": class, "bootname": bootname, "state": "inactive", "boot-status": "good"}}
	}
	for name, c := range map[string]struct {
		list any
		ok   bool
	}{
		"two, with data": {[]any{slot("rootfs.1", "rootfs", "B"), slot("data.0", "data", ""), slot("rootfs.0", "rootfs", "A")}, true},
		"one":            {[]any{slot("rootfs.0", "rootfs", "A")}, false},
		"three":          {[]any{slot("rootfs.0", "rootfs", "A"), slot("rootfs.1", "rootfs", "B"), slot("rootfs.2", "rootfs", "C")}, false},
		"two classes":    {[]any{slot("rootfs.0", "rootfs", "A"), slot("rescue.0", "rescue", "R")}, false},
		"nonsense":       {[]any{"x"}, false},
		"nothing":        {nil, false},
	} {
		p, err := placesOf(c.list)
		if (err == nil) != c.ok || c.ok && (p[0].Slot != slotA || p[1].Bootname != "B" || !p[1].good) {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}
