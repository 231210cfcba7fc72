package savepoint

import "errors"

var (
	// ErrNotSavepoint: the file does not begin as a savepoint does.
	ErrNotSavepoint = errors.New("not a savepoint")
	// ErrVersion: a newer agent wrote it. The file may be whole; this one cannot read it.
	ErrVersion = errors.New("savepoint of a newer format version")
	// ErrChecksum: the sha256 at its end differs from that of what comes before: it is damaged, cut short, or was copied badly.
	ErrChecksum = errors.New("savepoint is damaged: sha256 mismatch")
	// ErrCorrupt: the checksum holds, yet the content breaks the format.
	ErrCorrupt = errors.New("savepoint breaks the format")
	// ErrOrder: what was given to be written is out of order, or has holes.
	ErrOrder = errors.New("savepoint out of order")
	// ErrEntryTooLarge: a key and its value, or a result, exceed what a chunk may hold.
	ErrEntryTooLarge = errors.New("entry too large for a savepoint")
)
