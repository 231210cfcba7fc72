package upgradetest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/weirstream/weir/agent/upgrade"
)

// Fake is a backend in memory: a machine with a factory program and two slots, whose loader counts. It is the suite's own check, and for tests of those who use a backend.
type Fake struct {
	caps    upgrade.Caps
	content map[upgrade.Slot]string // what a slot holds, whole; "": nothing that may run
	booted  upgrade.Slot
	next    upgrade.Slot
	left    int // starts of next before good runs again; -1: no end
	good    upgrade.Slot
	asked   bool // Restart

	// Fault is a planted mistake.
	Fault string
}

// NewFake runs its factory program.
func NewFake() *Fake {
	return &Fake{
		caps:    upgrade.Caps{NeedsReboot: true, OwnBootCounter: true, Slots: []upgrade.Slot{upgrade.SlotA, upgrade.SlotB}},
		content: map[upgrade.Slot]string{upgrade.Factory: "factory"}, booted: upgrade.Factory, next: upgrade.Factory, good: upgrade.Factory, left: -1,
	}
}

var _ upgrade.Backend = (*Fake)(nil)

// Probe implements upgrade.Backend.
func (f *Fake) Probe(ctx context.Context) (upgrade.Caps, error) { return f.caps, ctx.Err() }

// Booted implements upgrade.Backend.
func (f *Fake) Booted(ctx context.Context) (upgrade.Slot, error) {
	if f.Fault == "booted is what was activated" {
		return f.next, ctx.Err()
	}
	return f.booted, ctx.Err()
}

// Stage implements upgrade.Backend.
func (f *Fake) Stage(ctx context.Context, slot upgrade.Slot, a upgrade.Artifact, progress func(int)) error {
	if slot == f.booted && f.Fault != "the slot that runs is written to" || slot == upgrade.Factory {
		return fmt.Errorf("stage into slot %s: it runs, or is the factory's", slot)
	}
	f.content[slot] = ""
	if f.Fault == "a slot that is written to may run" {
		f.content[slot] = "half of it"
	}
	b := make([]byte, a.Target.Bytes)
	if n, err := a.ReadAt(b, 0); int64(n) < a.Target.Bytes {
		return fmt.Errorf("stage into slot %s: %w", slot, errors.Join(err, io.ErrUnexpectedEOF))
	}
	if progress != nil {
		progress(500)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	is := sha256.Sum256(b)
	if hex.EncodeToString(is[:]) != a.Target.SHA256 && f.Fault != "nothing is verified" {
		return fmt.Errorf("stage into slot %s: the artifact's digest is not %s", slot, a.Target.SHA256)
	}
	f.content[slot] = a.Target.SHA256
	if f.Fault == "staging activates" {
		f.next, f.left = slot, -1
	}
	return nil
}

// Activate implements upgrade.Backend.
func (f *Fake) Activate(ctx context.Context, slot upgrade.Slot, tries int) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.content[slot] == "" {
		return fmt.Errorf("activate slot %s: nothing that may run lies there", slot)
	}
	f.next, f.left = slot, tries
	if f.Fault == "activation commits" {
		f.good, f.left = slot, -1
	}
	return nil
}

// Restart implements upgrade.Backend.
func (f *Fake) Restart(ctx context.Context) error {
	f.asked = true
	return ctx.Err()
}

// Commit implements upgrade.Backend.
func (f *Fake) Commit(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.Fault != "commit does nothing" {
		f.good, f.next, f.left = f.booted, f.booted, -1
	}
	return nil
}

// Revert implements upgrade.Backend.
func (f *Fake) Revert(ctx context.Context, slot upgrade.Slot) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if f.content[slot] == "" {
		return fmt.Errorf("revert to slot %s: nothing that may run lies there", slot)
	}
	if f.Fault != "revert does nothing" {
		f.good, f.next, f.left = slot, slot, -1
	}
	return nil
}

// Abort implements upgrade.Backend.
func (f *Fake) Abort(ctx context.Context, slot upgrade.Slot) error {
	if slot == f.booted || slot == upgrade.Factory {
		return fmt.Errorf("abort slot %s: it runs, or is the factory's", slot)
	}
	if f.Fault != "abort leaves it" {
		f.content[slot] = ""
	}
	if f.next == slot {
		f.next, f.left = f.good, -1
	}
	return ctx.Err()
}

// Boot is the machine's part of a start.
func (f *Fake) Boot() upgrade.Slot {
	if f.left == 0 || f.content[f.next] == "" {
		f.next, f.left = f.good, -1
	}
	if f.left > 0 && f.Fault != "tries are not counted" {
		f.left--
	}
	f.booted, f.asked = f.next, false
	return f.booted
}

// Runs is what the slot that runs holds.
func (f *Fake) Runs() string { return f.content[f.booted] }
