//go:build weirfault && !nocentral

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/agent/upgrade/slots"
	"github.com/weirstream/weir/fleet/rollout"
	"github.com/weirstream/weir/store/disk"
)

// dirBackend has its slots in a directory, and no helper that is root: a test starts what the record says.
type dirBackend struct {
	dir string
	end func()
}

// plantedBackend: WEIR_SLOTS=DIR has slots there; WEIR_SLOT is the one that runs. WEIR_BOOT_ROOT=DIR is a root in which the files of weir-boot lie (agent/cmd/weir-boot): the backend self on a machine that has many gateways.
func plantedBackend(cfg *config.Config, end func()) upgrade.Backend {
	if root := os.Getenv("WEIR_BOOT_ROOT"); root != "" && cfg.Upgrade.Backend == config.BackendSelf {
		if b, err := slots.Standard(cfg.StateDir.Value, end); err == nil {
			b.Boot, b.Run = filepath.Join(root, b.Boot), filepath.Join(root, b.Run)
			return b
		}
	}
	if dir := os.Getenv("WEIR_SLOTS"); dir != "" {
		return &dirBackend{dir: dir, end: end}
	}
	return nil
}

// plantedBlindness: with WEIR_FAULT=fleet-blind whoever judges a roll-out takes what has failed for good.
func plantedBlindness(f *rollout.Facts) {
	if os.Getenv("WEIR_FAULT") != "fleet-blind" {
		return
	}
	for name, r := range f.Reports {
		if r.Outcome != "" {
			r.Outcome = rollout.Committed
			f.Reports[name] = r
		}
	}
}

func (b *dirBackend) Probe(context.Context) (upgrade.Caps, error) {
	return upgrade.Caps{Slots: []upgrade.Slot{upgrade.Factory, upgrade.SlotA, upgrade.SlotB}}, nil
}

func (b *dirBackend) Booted(context.Context) (upgrade.Slot, error) {
	return upgrade.Slot(os.Getenv("WEIR_SLOT")), nil
}

func (b *dirBackend) Stage(_ context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(int)) error {
	data, err := io.ReadAll(io.NewSectionReader(a, 0, a.Target.Bytes))
	if err != nil {
		return err
	}
	name := filepath.Join(b.dir, string(slot))
	if err := os.WriteFile(name+".new", data, 0o755); err != nil {
		return err
	}
	progress(1000)
	return os.Rename(name+".new", name)
}

func (b *dirBackend) mark(what string, slot upgrade.Slot) error {
	return disk.WriteFileAtomic(disk.OS, filepath.Join(b.dir, what), []byte(slot))
}

func (b *dirBackend) Activate(_ context.Context, slot upgrade.Slot, tries int) error {
	if tries <= 0 {
		return fmt.Errorf("slot %s without a try", slot)
	}
	return b.mark("next", slot)
}

func (b *dirBackend) Restart(context.Context) error { return nil } // the caller ends

func (b *dirBackend) Commit(context.Context) error {
	return b.mark("good", upgrade.Slot(os.Getenv("WEIR_SLOT")))
}

func (b *dirBackend) Revert(_ context.Context, slot upgrade.Slot) error { return b.mark("next", slot) }

func (b *dirBackend) Abort(_ context.Context, slot upgrade.Slot) error {
	if err := os.Remove(filepath.Join(b.dir, string(slot))); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
