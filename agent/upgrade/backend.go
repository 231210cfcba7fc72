package upgrade

import (
	"context"
	"io"
)

// Caps are what a backend can.
type Caps struct {
	NeedsReboot    bool // Activate comes into force by a reboot of the machine, not by a new process
	OwnBootCounter bool // the boot loader counts tries too
	Slots          []Slot
}

// Artifact is a verified file, staged from here.
type Artifact struct {
	Target Target
	Path   string // on this device; its digest was verified
	io.ReaderAt
}

// Passing is an error of a backend behind which the same call may do better: what carries it out cannot be reached, has ended in the middle, or is busy.
type Passing string

func (p Passing) Error() string { return string(p) }

// Backend puts programs into slots and has one run. Every method can be repeated, ends with its context, and leaves the slot that runs alone. The record, gates and savepoints are the caller's.
type Backend interface {
	// Probe tells what it can, or why it cannot be used here.
	Probe(ctx context.Context) (Caps, error)
	// Booted is the slot that runs now. It is asked of the machine, not of the record.
	Booted(ctx context.Context) (Slot, error)
	// Stage puts an artifact into a slot that does not run; nothing boots it yet. Durable on return. progress gets parts of a thousand; it may be nil.
	Stage(ctx context.Context, slot Slot, a Artifact, progress func(permille int)) error
	// Activate has the slot run at the next start, at most tries times before the old one does again, where the backend counts.
	Activate(ctx context.Context, slot Slot, tries int) error
	// Restart ends this process, or reboots: it returns nil when it was asked for, and the caller waits to be ended.
	Restart(ctx context.Context) error
	// Commit makes the slot that runs the one for good.
	Commit(ctx context.Context) error
	// Revert has slot, which ran before, run at the next start.
	Revert(ctx context.Context, slot Slot) error
	// Abort makes what Stage has put there unusable, or removes it.
	Abort(ctx context.Context, slot Slot) error
}
