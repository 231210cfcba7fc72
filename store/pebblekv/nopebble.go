//go:build nopebble

package pebblekv

import (
	"context"

	"github.com/weirstream/weir/pipeline/state"
)

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

// Waits is nil.
func (*DB) Waits() error { return nil }

// Release does nothing.
func (*DB) Release() {}

// Close does nothing.
func (*DB) Close() error { return nil }

// Log does not exist in this build.
type Log struct{}

// OpenLog gives ErrNotBuilt.
func OpenLog(LogOptions) (*Log, error) { return nil, ErrNotBuilt }

func (*Log) Append(...[]byte) (uint64, error) { return 0, ErrNotBuilt }
func (*Log) Sync(context.Context) error       { return ErrNotBuilt }
func (*Log) First() uint64                    { return 1 }
func (*Log) Last() uint64                     { return 0 }
func (*Log) Trim(uint64) error                { return ErrNotBuilt }
func (*Log) Aside() []string                  { return nil }
func (*Log) Bytes() uint64                    { return 0 }
func (*Log) Close() error                     { return nil }

func (*Log) Scan(context.Context, uint64, func(uint64, []byte) (bool, error)) error {
	return ErrNotBuilt
}
