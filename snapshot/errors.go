package snapshot

import "errors"

// Errors of decoding. Magic, version, flags and checksum each have their own, so that a file of a newer agent never
// reads as damage.
var (
	// ErrMagic: the bytes are not what was expected in this place.
	ErrMagic = errors.New("unknown magic")
	// ErrVersion: written by a newer format version. The data may be whole; this agent cannot read it.
	ErrVersion = errors.New("unsupported format version")
	// ErrFlags: flags that this version does not know.
	ErrFlags = errors.New("unknown format flags")
	// ErrChecksum: the crc32c or sha256 differs.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrCorrupt: the checksum holds, yet the content breaks the format; or bytes are missing.
	ErrCorrupt = errors.New("corrupt")
	// ErrUnanswered: what was asked did not answer, or a newer agent wrote it. That says nothing about the checkpoint.
	ErrUnanswered = errors.New("not known")
	// ErrMissing: a frame or base that a manifest names is not there.
	ErrMissing = errors.New("missing")
)

// Errors of stores, coordinator and restore.
var (
	// ErrClosed: the store or coordinator was closed.
	ErrClosed = errors.New("closed")
	// ErrStoreFailed: it is not known whether the commit is durable, or the store latched after a failed write. The store
	// must be closed and opened again, and the pipeline restored from what it then holds. It ends Coordinator.Run.
	ErrStoreFailed = errors.New("checkpoint store failed")
	// errPlanted: WEIR_ABORT_EVERY made this checkpoint fail; only builds for the crash run read it.
	errPlanted = errors.New("failed on demand")
	// ErrNoCheckpoint: the store never held a checkpoint. The pipeline is new: Coordinator.CommitInitial comes next.
	ErrNoCheckpoint = errors.New("no checkpoint yet")
	// ErrNoValidCheckpoint: there are, or have been, checkpoints and none may be restored. Restore refuses unless AllowEmpty.
	ErrNoValidCheckpoint = errors.New("no valid checkpoint")
	// ErrTooManyFailures: more consecutive checkpoints failed than Config.TolerableFailures allows. It ends Coordinator.Run.
	ErrTooManyFailures = errors.New("too many failed checkpoints")
	// ErrTimeout: a checkpoint took longer than Config.Timeout and was aborted.
	ErrTimeout = errors.New("checkpoint timed out")
	// ErrEntryTooLarge: a state entry exceeds the size that a frame can hold. The checkpoint is aborted.
	ErrEntryTooLarge = errors.New("state entry too large")
)
