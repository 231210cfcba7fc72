//go:build nopebble

package pebblekv

import "github.com/weirstream/weir/pipeline/state"

// Built tells whether this binary has Pebble.
const Built = false

// DB does not exist in this build.
type DB struct{ state.Backing }

// Open gives ErrNotBuilt.
func Open(Options) (*DB, error) { return nil, ErrNotBuilt }

// OpenMem gives ErrNotBuilt.
func OpenMem(int64) (*DB, error) { return nil, ErrNotBuilt }

// Metrics are all 0.
func (*DB) Metrics() Metrics { return Metrics{} }

// Close does nothing.
func (*DB) Close() error { return nil }
