package pebblekv

import (
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/store/disk"
)

var (
	// ErrFull is returned by Append when little of the disk is free: Pebble is not let run into a full one.
	ErrFull = errors.New("no space left on device")
	// ErrFailed latches a Log after a failed write: close it, open it again. A DB has it when its files took no more: what it held is in the checkpoint.
	ErrFailed = errors.New("Pebble's files failed")
	// ErrClosed is returned by a closed Log.
	ErrClosed = errors.New("closed")
)

// MissingError is a run of records that are not where they ought to be.
type MissingError struct{ First, Last uint64 }

func (e *MissingError) Error() string {
	return fmt.Sprintf("records %d to %d are missing", e.First, e.Last)
}

// LogOptions of OpenLog.
type LogOptions struct {
	FS  disk.FS
	Dir string // made when it is missing
	// Background is told of a flush or compaction that could not read, which Pebble tries again: the first time, and again each ten minutes. It may be called from any goroutine. Optional.
	Background func(error)

	fault logFault
}

// logFault is a mistake planted by a test.
type logFault struct {
	unsynced   bool // Sync does not sync
	frank      bool // Pebble hears of errors of the disk
	disorderly bool // a manifest's name is not durable before the marker that names it
}

// PlantUnsynced plants the fault "Sync does not sync", for tests of what stands on a Log.
func (o *LogOptions) PlantUnsynced() { o.fault.unsynced = true }

// flushDelay: trimmed records give their space back so much later, if nothing else has Pebble flush before.
const flushDelay = time.Minute
