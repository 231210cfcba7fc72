package state

import "errors"

var (
	// ErrMaxKeys is returned when a new key would exceed Spec.MaxKeys. The table is unchanged.
	ErrMaxKeys = errors.New("max_keys reached")
	// ErrAborted is returned by Encode when this checkpoint, or an older one that it builds on, was aborted (RULES 15).
	ErrAborted = errors.New("checkpoint aborted")
	// ErrEncoded is returned when Encode is called a second time: what was encoded is no longer kept.
	ErrEncoded = errors.New("changes already encoded")
	// ErrEntry is returned by Load for bytes that Encode cannot have made (FORMAT.md).
	ErrEntry = errors.New("malformed state entry")
)
