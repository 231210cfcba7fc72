package slots_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/boot"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/slots"
	"github.com/weirstream/weir/agent/upgrade/upgradetest"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// device is the backend with the helper that belongs to it. It keeps the record as the agent does: that is what the helper goes by.
type device struct {
	*slots.Backend
	places  boot.Places
	release signed.KeySigner
	target  upgrade.Target // what was staged last
	number  uint64
	starts  int
}

var _ upgrade.Backend = (*device)(nil)

func (d *device) store() upgrade.Store {
	return upgrade.Store{FS: disk.OS, Dir: filepath.Join(d.places.State, "upgrade")}
}

func (d *device) change(f func(r *upgrade.Record)) error {
	r, err := d.store().Read()
	if err != nil {
		return err
	}
	f(&r)
	return d.store().Save(&r)
}

func (d *device) Stage(ctx context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(int)) error {
	m := document.Release{Fleet: "plant", Version: a.Target.Version, CreatedMs: 1, Artifacts: []document.Artifact{{Backend: "self", Arch: d.places.Arch, Bytes: a.Target.Bytes, SHA256: a.Target.SHA256,
		ChunkBytes: document.ChunkBytesMin, Chunks: []string{a.Target.SHA256}, Compat: document.Compat{Formats: map[string]document.Versions{}, State: map[string]document.Versions{}}}}}
	payload, err := m.Encode()
	if err != nil {
		return err
	}
	e, err := signed.Seal(ctx, signed.TypeRelease, payload, d.release)
	if err == nil {
		err = disk.WriteFileAtomic(disk.OS, filepath.Join(d.places.State, "upgrade", "release.json"), e.Bytes())
	}
	if err != nil {
		return err
	}
	d.target = a.Target
	d.target.Backend = "self"
	return d.Backend.Stage(ctx, slot, a, progress)
}

func (d *device) Activate(ctx context.Context, slot upgrade.Slot, tries int) error {
	if err := d.Backend.Activate(ctx, slot, tries); err != nil {
		return err
	}
	active, err := d.Booted(ctx)
	if err != nil || active == slot { // it runs already
		return err
	}
	return d.change(func(r *upgrade.Record) {
		d.number++
		*r = upgrade.Record{Number: d.number, State: upgrade.Switched, Target: d.target, Active: active, Standby: slot, Tries: tries}
	})
}

func (d *device) Commit(ctx context.Context) error {
	if err := d.Backend.Commit(ctx); err != nil {
		return err
	}
	return d.change(func(r *upgrade.Record) { r.State, r.Tries = upgrade.Committed, 0 })
}

func (d *device) Revert(ctx context.Context, slot upgrade.Slot) error {
	if err := d.Backend.Revert(ctx, slot); err != nil {
		return err
	}
	return d.change(func(r *upgrade.Record) {
		if r.Active == slot && r.State != upgrade.Idle {
			r.State, r.Tries = upgrade.RolledBack, upgrade.TriesWrong
		}
	})
}

// start does as the unit does.
func (d *device) start() (upgrade.Slot, error) {
	d.starts++
	d.places.Start = fmt.Sprint("start-", d.starts)
	ctx := context.Background()
	if _, err := d.places.Link(ctx); err != nil {
		return "", err
	}
	if err := d.places.Count(); err != nil {
		return "", err
	}
	b, err := d.places.Settle(ctx)
	if err != nil {
		return "", err
	}
	exe, err := filepath.EvalSymlinks(filepath.Join(d.places.Dir, "current", "weir"))
	d.Backend = &slots.Backend{FS: disk.OS, State: d.places.State, Boot: d.places.Dir, Run: d.places.Run, Exe: exe, Start: d.places.Start, End: func() {}}
	return b.Slot, err
}

func (d *device) runs() (string, error) {
	b, err := os.ReadFile(d.Exe)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), err
}

func newDevice(dir string) (*upgradetest.Machine, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	d := &device{places: boot.Places{State: at("state"), Dir: at("boot"), Run: at("run"), Counted: at("agent-run/counted"), Factory: at("factory"), Provisioned: at("root.json"), Arch: "arm64", Owner: os.Geteuid(), Limit: time.Hour}}
	for _, name := range []string{"state", "state/upgrade", "agent-run", "factory"} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			return nil, err
		}
	}
	root := signed.Root{Fleet: "plant", Version: 1, CreatedMs: 1}
	var master signed.KeySigner
	for _, role := range signed.Roles() {
		key, err := signed.NewKey()
		if err != nil {
			return nil, err
		}
		k := signed.KeySigner(key)
		switch role {
		case signed.RoleRoot:
			master = k
		case signed.RoleRelease:
			d.release = k
		}
		root.Keys = append(root.Keys, signed.NewRootKey(k.Public(), ""))
		*root.Of(role) = signed.Grant{Keys: []signed.KeyID{k.ID()}, Threshold: 1, Since: 1}
	}
	payload, err := root.Encode()
	if err != nil {
		return nil, err
	}
	e, err := signed.Seal(context.Background(), signed.TypeRoot, payload, master)
	if err == nil {
		err = os.WriteFile(at("root.json"), e.Bytes(), 0o644)
	}
	if err == nil {
		err = os.WriteFile(at("factory/weir"), []byte("factory"), 0o755)
	}
	if err == nil {
		_, err = d.start()
	}
	return &upgradetest.Machine{Backend: d, Boot: d.start, Runs: d.runs, Helper: true, Artifact: func(kind string) []byte { return bytes.Repeat([]byte(kind), 5000) }}, err
}

// TestConforms: the backend with the real helper beside it keeps what every backend promises.
func TestConforms(t *testing.T) {
	if err := upgradetest.Check(t.Context(), func() (*upgradetest.Machine, error) { return newDevice(t.TempDir()) }); err != nil {
		t.Error(err)
	}
}

// stagesAnything is the planted mistake: it puts whatever it gets where the helper looks.
type stagesAnything struct{ *device }

func (s stagesAnything) Stage(ctx context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(int)) error {
	b := make([]byte, a.Target.Bytes)
	n, _ := a.ReadAt(b, 0)
	s.target = a.Target
	return disk.WriteFileAtomic(disk.OS, filepath.Join(s.places.State, "upgrade", "slot"), b[:n])
}

// TestASuiteThatFinds: with the mistake the suite complains.
func TestASuiteThatFinds(t *testing.T) {
	err := upgradetest.Check(t.Context(), func() (*upgradetest.Machine, error) {
		m, err := newDevice(t.TempDir())
		if err == nil {
			m.Backend = stagesAnything{m.Backend.(*device)}
		}
		return m, err
	})
	if err == nil {
		t.Error("the planted mistake is not found")
	}
}
