package uplink

import (
	"context"

	"github.com/weirstream/weir/pipeline"
)

// Queue is what a Sender takes results from. The outbox's stream implements it. One goroutine calls it.
type Queue interface {
	// Next waits for visible results behind the cursor and moves the cursor behind them. The slice is valid until the next
	// call, payloads for as long as they are referenced. A batch fixed by Bind comes back with the same bounds.
	Next(ctx context.Context, maxResults, maxBytes int) ([]pipeline.Result, error)
	// Seek puts the cursor at the end of the run that upstream holds in a generation; what lies below is confirmed. known
	// results were waiting although upstream held them: an answer was lost. lostFirst..lostLast (0: none) were confirmed
	// once and upstream holds them no more; the sender sends a gap in their place.
	Seek(generation, seq, chain uint64) (known, lostFirst, lostLast uint64, err error)
	// Resume puts the cursor back to what is confirmed, for an endpoint that keeps no progress.
	Resume()
	// Bind fixes the bounds of the next batch durably before it is first sent.
	Bind(ctx context.Context, first, last uint64) error
	// Confirm says that upstream holds everything up to seq for good. Repeating it is harmless.
	Confirm(seq, chain uint64) error
	// Skip replaces results by a gap; it is durable on return.
	Skip(ctx context.Context, first, last uint64, reason string) error
}

// KeyOnly is implemented by endpoints that keep no progress and know only an idempotency key per request: the sender
// fixes the bounds of each batch before it first sends it, and sends only data.
type KeyOnly interface {
	KeyOnly() bool
}

// Repeatable is implemented by endpoints that keep no progress and to which a repeat, however it is cut, is no second result: the sender
// goes on behind what is confirmed here, and sends only data.
type Repeatable interface {
	Repeatable() bool
}

// Limits is implemented by endpoints that take no record above a size.
type Limits interface {
	// MaxRecordBytes is the largest payload of one result, 0 when there is no limit.
	MaxRecordBytes() int
}
