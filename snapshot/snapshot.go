// Package snapshot makes, keeps and restores checkpoints: the state of a pipeline at a barrier, so that a restart reads the
// journal from there and not from its beginning.
//
// A checkpoint is committed by the sync of its manifest; when Coordinator.Trigger returns it survives a power cut. What a checkpoint
// needs (its frames, its base, the journal behind it, its results in the outbox) is kept as long as the
// checkpoint is retained. Nothing damaged is ever deleted or trusted: it is set aside, and an older checkpoint is restored.
//
// One Coordinator per pipeline drives barriers through the engine and owns the commit order (DESIGN.md). A Store keeps
// the bytes: LogStore in a recycled log (or, OpenPebble, in a Pebble directory) and base files, BoltStore in one bbolt file (FORMAT.md). Restore finds the newest
// valid checkpoint. The package knows neither the engine nor the outbox nor the journal; it declares what it needs of each.
package snapshot

import (
	"context"

	"github.com/weirstream/weir/pipeline"
)

// Store keeps the checkpoints of one pipeline. All methods may be called from several goroutines; at most one Writer is open
// at a time. An error that wraps ErrStoreFailed means: close, open again, restore.
type Store interface {
	// List gives what the store holds. It changes nothing.
	List(ctx context.Context) (Listing, error)
	// LastID is the highest checkpoint number ever used here as far as the store knows.
	LastID() uint64
	// Begin starts checkpoint id on top of parent (nil: the empty state).
	Begin(ctx context.Context, parent *Manifest, id uint64) (Writer, error)
	// Verify reads every frame and the base of m and compares the checksums. Damage wraps ErrChecksum, ErrCorrupt, ErrMissing,
	// ErrMagic, ErrVersion or ErrFlags.
	Verify(ctx context.Context, m *Manifest) error
	// Load gives the state of m. Each Entries call streams in bounded memory and checks what it reads.
	Load(m *Manifest) (pipeline.StateSource, error)
	// SetAside marks a checkpoint as never to be restored. Durable on return; its bytes stay. A repeat is harmless.
	SetAside(ctx context.Context, id uint64, reason string) error
	// Prune ends the retention of all checkpoints below oldest. That is durable on return; the space is freed then or
	// later. A repeat is harmless.
	Prune(ctx context.Context, oldest uint64) error
	// Rebase merges base and frames of m into a new base, durable on return. The caller puts it into a later manifest of
	// the same chain; the store keeps it until then.
	Rebase(ctx context.Context, m *Manifest) (BaseRef, error)
	// Import makes a base of the state that fill gives, in rising order of (uid, table, key, sub), for a checkpoint m that is to be
	// committed next with that base and no parent. Durable on return; until m is committed nothing names it.
	Import(ctx context.Context, m *Manifest, fill func(add AddEntry) error) (BaseRef, error)
	Stats() StoreStats
	// Close waits for a Rebase that runs. No other call may be under way or come later.
	Close() error
}

// AddEntry takes an entry; what it is given is not kept.
type AddEntry func(uid, table string, key, sub, val []byte) error

// Writer writes one checkpoint. Exactly one of Commit and Abort ends it.
type Writer interface {
	// Write encodes the parts of a task. It neither commits nor aborts the Frozen parts. Not durable.
	Write(ctx context.Context, task string, parts []pipeline.StatePart) error
	// Commit puts the frames behind those of the parent in m, names the parent's base or, when m.Base is set, that one
	// with the frames since, and makes all of it durable: when it returns nil, the checkpoint exists. After ErrStoreFailed it
	// may or may not exist; after any other error it does not.
	Commit(ctx context.Context, m *Manifest) error
	// Abort forgets what was written. Harmless after Commit.
	Abort()
}

// Listing is what a store holds.
type Listing struct {
	Manifests []*Manifest // live: committed, not pruned, not set aside; newest first
	Bad       []Bad       // live by number, but unreadable
	SetAside  []Bad
	Fresh     bool     // nothing shows that there ever was a checkpoint here
	Damage    []string // what opening the store found, in words
}

// Bad is a checkpoint that cannot be restored.
type Bad struct {
	ID     uint64
	Reason string
	Newer  bool // not damaged: a newer agent wrote it
}

// StoreStats are sizes in bytes and counts since the store was opened.
type StoreStats struct {
	Checkpoints  int    // live
	Bytes        uint64 // on flash, all files
	BytesWritten uint64 // handed to the file system, compressed
	Rebases      uint64
	SetAside     int
}

// Engine is what the coordinator needs of pipeline/exec.
type Engine interface {
	// Inject puts barrier b between two batches of every source task; each task then calls Coordinator.Deliver once. When it
	// returns an error no task will deliver.
	Inject(ctx context.Context, b uint64) error
}

// Outbox is what the coordinator needs of store/outbox.
type Outbox interface {
	// Seal makes the results up to the barrier durable unless upstream confirmed them.
	Seal(ctx context.Context, b pipeline.Barrier) ([]OutboxRange, error)
	// Released says that barrier id is committed: its results become visible to the uplinks. It does not block.
	Released(barrierID uint64)
}

// Journal is what the coordinator needs of store/journal.
type Journal interface {
	// Retain says that holder needs the records above pos.
	Retain(holder string, pos pipeline.Position)
	// Trim recycles what no holder needs.
	Trim(ctx context.Context) error
}
