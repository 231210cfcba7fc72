//go:build weirfault && !nocentral

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
)

// dirBackend has its slots in a directory, and no helper that is root: a test starts what the record says.
type dirBackend struct {
	dir string
	end func()
}

// plantedBackend: WEIR_SLOTS=DIR has slots there; WEIR_SLOT is the one that runs.
func plantedBackend(end func()) upgrade.Backend {
	if dir := os.Getenv("WEIR_SLOTS"); dir != "" {
		return &dirBackend{dir: dir, end: end}
	}
	return nil
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
