package outbox

import (
	"errors"
	"fmt"
)

var (
	// ErrClosed is returned by every call after Close.
	ErrClosed = errors.New("outbox is closed")
	// ErrNotWhole says that results which a checkpoint relies on are neither here nor upstream (RULES 10). The text names them.
	ErrNotWhole = errors.New("outbox range is not whole")
	// ErrSequence says that a result does not continue its stream: a fault of the caller, or two writers.
	ErrSequence = errors.New("result does not continue its stream")
	// ErrBarrier says that Seal was called for a barrier that a stream has not passed.
	ErrBarrier = errors.New("stream has not passed the barrier")
	// ErrCorrupt says that a record whose frame checksum is right does not decode: written by something else.
	ErrCorrupt = errors.New("outbox record does not decode")
	// ErrVersion says that a record was written by a newer weir.
	ErrVersion = errors.New("outbox record has an unknown version")
	// ErrUnreleased: since the last good checkpoint the pipeline made more results than the log may hold. It has to start from that
	// checkpoint again, which voids them.
	ErrUnreleased = errors.New("the outbox is full of results that no checkpoint has released: make checkpoints more often, or see why they fail")
	// ErrLayout says that an earlier build wrote here, with one log for all sinks. Nothing was changed.
	ErrLayout = errors.New("the outbox has one log for all sinks, as an earlier build wrote it: let that build deliver what waits, then remove the directory")
	// ErrNotCut says that results came before Cut said where the pipeline resumes.
	ErrNotCut = errors.New("outbox was not told where the pipeline resumes")
)

func corrupt(what string) error { return fmt.Errorf("%w: %s", ErrCorrupt, what) }
