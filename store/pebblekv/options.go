//go:build !nopebble

package pebblekv

import (
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// formatVersion pins the format on flash: another one is a change of weir's, not of a new release of Pebble.
const formatVersion = pebble.FormatValueSeparation

const (
	memtableShare = 4 // of MemoryBytes is one memtable: two of them, and half for blocks
	memtableMin   = 256 << 10
	memtableMax   = 16 << 20
	blockBytes    = 4 << 10
	filterBits    = 10
)

// options for a store within memory bytes.
func options(fs vfs.FS, memory int64, background func(error)) *pebble.Options {
	memtable := min(max(memory/memtableShare, memtableMin), memtableMax)
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          formatVersion,
		MemTableSize:                uint64(memtable),
		MemTableStopWritesThreshold: 2,
		CacheSize:                   memory, // Pebble takes the memtables out of it
		MaxOpenFiles:                256,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		L0CompactionThreshold:       8,
		L0StopWritesThreshold:       24,
		LBaseMaxBytes:               64 << 20,
		Logger:                      quiet{},
	}
	o.Experimental.ReadSamplingMultiplier = -1 // no compaction for the sake of reads: flash counts
	for i := range o.Levels {
		l := &o.Levels[i]
		l.BlockSize, l.IndexBlockSize = blockBytes, 4*blockBytes
		if i < len(o.Levels)-1 { // the last level has most keys: its filters would fill the cache and tell little
			l.FilterPolicy, l.FilterType = bloom.FilterPolicy(filterBits), pebble.TableFilter
		}
		l.Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	o.TargetFileSizes[0] = 2 << 20
	for i := 1; i < len(o.TargetFileSizes); i++ {
		o.TargetFileSizes[i] = min(o.TargetFileSizes[i-1]*2, 8<<20)
	}
	if background == nil {
		background = func(error) {}
	}
	// Without one of our own, Pebble's answer to damage is to end the process.
	o.EventListener = &pebble.EventListener{
		BackgroundError: background,
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			background(fmt.Errorf("%w: %s: %w", ErrDamaged, i.Path, i.Details))
		},
	}
	return o
}

// quiet leaves out what Pebble tells of its daily work. Fatal ends the process, as Pebble demands.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf("pebble: "+format, args...))
}
