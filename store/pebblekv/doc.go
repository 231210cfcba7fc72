// Package pebblekv is the only importer of Pebble. DB is the store beneath the large tables of a pipeline (state.Backing): a cache of
// the state that is made anew at each start, without a log and without a sync, in memory that is bounded. Log is a
// durable sequence of records, on which the checkpoint store pebble stands.
//
// DESIGN.md tells what is written when, and why. A build with the tag nopebble has neither: Open gives ErrNotBuilt.
package pebblekv

import "errors"

var (
	// ErrNotBuilt is returned by a binary that was built with the tag nopebble.
	ErrNotBuilt = errors.New("this binary was built without Pebble (tag nopebble)")
	// ErrDamaged is returned when what a store reads is not what was written. The working directory of a pipeline is then set aside at the
	// next start, and the state is read from the checkpoint.
	ErrDamaged = errors.New("the Pebble directory is damaged")
)

// Options of a DB.
type Options struct {
	Dir string
	// MemoryBytes bounds what Pebble itself holds: block cache and memtables. 1 MiB at least.
	MemoryBytes int64
	// Background is told of a write that waits for a full or read-only disk, and of a flush or compaction that failed and is tried again: the first time, and again each ten minutes. It may be
	// called from any goroutine, and must not wait.
	Background func(error)
	// Waiting is called with each try of a write that waits until the disk takes it. It must not block. Optional.
	Waiting func()
}
