package slots

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/disk/disktest"
)

func artifact(b []byte) upgrade.Artifact {
	sum := sha256.Sum256(b)
	return upgrade.Artifact{Target: upgrade.Target{Version: "new", SHA256: hex.EncodeToString(sum[:]), Bytes: int64(len(b))}, ReaderAt: bytes.NewReader(b)}
}

// helped is a backend whose start the helper has linked.
func helped(t *testing.T, change func(m map[string]any)) *Backend {
	t.Helper()
	dir := t.TempDir()
	b := &Backend{FS: disk.OS, State: filepath.Join(dir, "state"), Boot: filepath.Join(dir, "boot"), Run: filepath.Join(dir, "run"), Exe: "/usr/bin/weir", Start: "start-1", End: func() {}}
	said := map[string]any{"slot": "factory", "start": "start-1", "state_dir": b.State}
	if change != nil {
		change(said)
	}
	text, err := json.Marshal(said)
	if err == nil {
		err = os.Mkdir(b.Run, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(b.Run, "booted"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestProbe: it can be used only in a start that the helper has linked, by the record of this state_dir.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		change func(map[string]any)
		good   bool
	}{
		"linked":            {nil, true},
		"another start":     {func(m map[string]any) { m["start"] = "start-0" }, false},
		"another state_dir": {func(m map[string]any) { m["state_dir"] = "/elsewhere" }, false},
	} {
		b := helped(t, c.change)
		caps, err := b.Probe(t.Context())
		if c.good != (err == nil) || !c.good && !errors.Is(err, ErrNoHelper) {
			t.Errorf("%s: %v", name, err)
		}
		if c.good && (caps.NeedsReboot || caps.OwnBootCounter || !slices.Equal(caps.Slots, []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB})) {
			t.Errorf("%+v", caps)
		}
	}
	b := helped(t, nil)
	b.Start = ""
	if _, err := b.Probe(t.Context()); !errors.Is(err, ErrNoHelper) {
		t.Errorf("without systemd: %v", err)
	}
	if err := os.RemoveAll(b.Run); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Probe(t.Context()); !errors.Is(err, ErrNoHelper) {
		t.Errorf("without the helper: %v", err)
	}
}

// TestBooted is asked of the running program, not of the record.
func TestBooted(t *testing.T) {
	b := helped(t, nil)
	for exe, want := range map[string]upgrade.Slot{
		"/usr/bin/weir": upgrade.Factory, b.Boot + "/slots/a/weir": upgrade.SlotA, b.Boot + "/slots/b/weir": upgrade.SlotB, b.Boot + "/slots/b/weir (deleted)": upgrade.SlotB,
	} {
		b.Exe = exe
		if got, err := b.Booted(t.Context()); got != want || err != nil {
			t.Errorf("%s: %s %v", exe, got, err)
		}
	}
	b = helped(t, func(m map[string]any) { m["slot"] = "a" })
	if got, err := b.Booted(t.Context()); !errors.Is(err, ErrNoHelper) {
		t.Errorf("slot a was linked, and the factory program runs: %s %v", got, err)
	}
	b = helped(t, func(m map[string]any) { m["taken"], m["rescue"] = "a package", "no slot" })
	if taken, rescue, err := b.Helped(); taken != "a package" || rescue != "no slot" || err != nil {
		t.Errorf("%q %q %v", taken, rescue, err)
	}
	if why, err := b.Refused(upgrade.SlotA); why != "" || err != nil {
		t.Errorf("nothing was refused: %q %v", why, err)
	}
	if how, err := b.Killed("abc"); how != "" || err != nil {
		t.Errorf("nothing was ended: %q %v", how, err)
	}
	for name, text := range map[string]string{"refused": `[{"slot":"b","why":"other"},{"slot":"a","why":"no space"}]`, "ended": `{"sha256":"abc","how":"watchdog"}`} {
		if err := os.WriteFile(filepath.Join(b.Run, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if why, err := b.Refused(upgrade.SlotA); why != "no space" || err != nil {
		t.Errorf("%q %v", why, err)
	}
	if how, err := b.Killed("abc"); how != "watchdog" || err != nil {
		t.Errorf("%q %v", how, err)
	}
	if how, err := b.Killed("another"); how != "" || err != nil {
		t.Errorf("another program was ended, and %q %v", how, err)
	}
}

// TestStage: the file is what the target says, is there once, and goes with Abort, Commit and Revert, each of which may be repeated.
func TestStage(t *testing.T) {
	content := bytes.Repeat([]byte("weir"), 200_000)
	for name, drop := range map[string]func(b *Backend, ctx context.Context) error{
		"abort":  func(b *Backend, ctx context.Context) error { return b.Abort(ctx, upgrade.SlotA) },
		"commit": func(b *Backend, ctx context.Context) error { return b.Commit(ctx) },
		"revert": func(b *Backend, ctx context.Context) error { return b.Revert(ctx, upgrade.Factory) },
	} {
		b := helped(t, nil)
		var told []int
		for range 2 {
			if err := b.Stage(t.Context(), upgrade.SlotA, artifact(content), func(p int) { told = append(told, p) }); err != nil {
				t.Fatal(err)
			}
			if got, err := os.ReadFile(b.staged()); err != nil || !bytes.Equal(got, content) {
				t.Fatalf("%d bytes, %v", len(got), err)
			}
		}
		if !slices.IsSorted(told) || told[len(told)-1] != 1000 {
			t.Errorf("progress %v", told)
		}
		other := append(bytes.Clone(content), "newer"...)
		if err := b.Stage(t.Context(), upgrade.SlotA, artifact(other), nil); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(b.staged()); err != nil || !bytes.Equal(got, other) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		for range 2 {
			if err := drop(b, t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		b.Exe = b.Boot + "/slots/a/weir"
		if err := b.Stage(t.Context(), upgrade.SlotA, artifact(content), nil); !errors.Is(err, ErrSlot) {
			t.Errorf("staged into the slot that runs: %v", err)
		}
		if entries, err := os.ReadDir(filepath.Dir(b.staged())); err != nil || len(entries) != 0 {
			t.Errorf("%s leaves %v, %v", name, entries, err)
		}
	}
}

// TestWhatIsNotStaged: another digest, fewer bytes, no slot, a context that has ended. Nothing is left then that could be activated.
func TestWhatIsNotStaged(t *testing.T) {
	b := helped(t, nil)
	good := []byte("the old one")
	if err := b.Stage(t.Context(), upgrade.SlotB, artifact(good), nil); err != nil {
		t.Fatal(err)
	}
	wrong := artifact([]byte("a new program"))
	wrong.ReaderAt = bytes.NewReader([]byte("a new progrbm"))
	short := artifact([]byte("a new program"))
	short.ReaderAt = bytes.NewReader([]byte("a new"))
	for name, a := range map[string]upgrade.Artifact{"another byte": wrong, "cut short": short} {
		if err := b.Stage(t.Context(), upgrade.SlotA, a, nil); !errors.Is(err, ErrArtifact) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, s := range []upgrade.Slot{upgrade.Factory, "c", "../a"} {
		if err := b.Stage(t.Context(), s, artifact(good), nil); !errors.Is(err, ErrSlot) {
			t.Errorf("slot %s: %v", s, err)
		}
		if err := b.Activate(t.Context(), s, 3); !errors.Is(err, ErrSlot) {
			t.Errorf("slot %s: %v", s, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Stage(ended, upgrade.SlotA, artifact([]byte("x")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(b.staged())); err != nil || len(entries) != 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
	if err := b.Activate(t.Context(), upgrade.SlotA, 3); !errors.Is(err, ErrSlot) {
		t.Errorf("activated: %v", err)
	}
}

// TestStageSurvivesPowerCuts: at every step the name has nothing, or the whole artifact; behind a Stage that returned, the artifact, also where it found it there.
func TestStageSurvivesPowerCuts(t *testing.T) {
	content := bytes.Repeat([]byte("weir"), 10_000)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	// lost tells whether any legal image of the disk, at any step or behind the end, breaks the promise.
	lost := func(repeated bool, planted func(disk.FS) disk.FS) (broken int, images int) {
		mem := disktest.NewMem()
		if err := mem.MkdirAll("/state"); err != nil {
			t.Fatal(err)
		}
		crasher := &disktest.Crasher{Seed: seed}
		look := func(must bool) {
			crasher.Images(mem, uint64(len(mem.Names())), func(image *disktest.Mem) {
				got, err := disk.ReadFile(image, "/state/upgrade/slot")
				if errors.Is(err, fs.ErrNotExist) && !must {
					return
				}
				if err != nil || !bytes.Equal(got, content) {
					broken++
				}
			})
		}
		b := &Backend{FS: planted(mem), State: "/state", Boot: "/boot", Exe: "/boot/slots/b/weir"}
		if repeated { // by a process that was killed in front of the last sync
			b.FS = unsyncedDirs{planted(mem)}
			if err := b.Stage(t.Context(), upgrade.SlotA, artifact(content), nil); err != nil {
				t.Fatal(err)
			}
			b.FS = planted(mem)
		}
		mem.OnOp(func(string) { look(false) })
		if err := b.Stage(t.Context(), upgrade.SlotA, artifact(content), nil); err != nil {
			t.Fatal(err)
		}
		mem.OnOp(nil)
		crasher = &disktest.Crasher{Seed: seed}
		look(true)
		return broken, crasher.Distinct()
	}
	whole := func(fsys disk.FS) disk.FS { return fsys }
	for _, repeated := range []bool{false, true} {
		if broken, images := lost(repeated, whole); broken != 0 || images == 0 {
			t.Errorf("repeated %v: %d images are broken, of %d behind the end", repeated, broken, images)
		}
		if broken, _ := lost(repeated, func(fsys disk.FS) disk.FS { return unsyncedDirs{fsys} }); broken == 0 {
			t.Errorf("repeated %v: the planted fault is not found", repeated)
		}
	}
}

// unsyncedDirs forgets to sync directories.
type unsyncedDirs struct{ disk.FS }

func (unsyncedDirs) SyncDir(string) error { return nil }

// TestStageOnAFullDisk: nothing is left of it, and the error is the disk's.
func TestStageOnAFullDisk(t *testing.T) {
	b := helped(t, nil)
	faulty := disktest.NewFaulty(disk.OS)
	faulty.LimitSpace(100_000)
	b.FS = faulty
	if err := os.MkdirAll(filepath.Dir(b.staged()), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := b.Stage(t.Context(), upgrade.SlotA, artifact(bytes.Repeat([]byte("x"), 1<<20)), nil); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
	if entries, err := os.ReadDir(filepath.Dir(b.staged())); err != nil || len(entries) != 0 {
		t.Errorf("%v, %v", entries, err)
	}
}

// TestRestartEndsTheProcess, once it is asked for by a context that lives.
func TestRestartEndsTheProcess(t *testing.T) {
	b := helped(t, nil)
	ends := 0
	b.End = func() { ends++ }
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.Restart(ended); err == nil || ends != 0 {
		t.Errorf("%d ends, %v", ends, err)
	}
	if err := b.Restart(t.Context()); err != nil || ends != 1 {
		t.Errorf("%d ends, %v", ends, err)
	}
}
