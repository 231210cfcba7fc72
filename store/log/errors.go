package log

import "errors"

// Errors of decoding a frame; each thing that can be wrong has its own, so that a newer version never reads as damage.
var (
	// ErrMagic: no frame begins here.
	ErrMagic = errors.New("no frame here")
	// ErrVersion: intact, and written by a newer agent. The log is not opened: go back to that agent, or move the directory away.
	ErrVersion = errors.New("frame version is not known to this agent")
	// ErrFlags: intact, with flags that this version does not know. The log is not opened.
	ErrFlags = errors.New("frame flags are not known to this agent")
	// ErrChecksum: torn or damaged.
	ErrChecksum = errors.New("frame checksum mismatch")
	// ErrCorrupt: the checksum holds and the content contradicts itself.
	ErrCorrupt = errors.New("frame content is corrupt")
)

// Errors of a Log.
var (
	// ErrFull: max_bytes or the disk reserve is reached; nothing was appended. It ends when 20 % is free again.
	ErrFull = errors.New("log is full")
	// ErrFailed: a write or fsync failed. The log takes nothing any more; close it and open it again through recovery.
	ErrFailed = errors.New("log failed")
	// ErrClosed: Close was called.
	ErrClosed = errors.New("log is closed")
	// ErrTrimmed: the position lies below the log's first record.
	ErrTrimmed = errors.New("position is below the log's first record")
	// ErrTooLarge: the record is longer than RecordBytesMax.
	ErrTooLarge = errors.New("record is too large")
)
