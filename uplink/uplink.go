// Package uplink delivers results upstream exactly once: the protocol (DESIGN.md), the sender that drives an endpoint,
// back-off, splitting and rejection. Endpoints live in the packages below it.
package uplink

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// Incarnation is the fencing token of a sender (RULES 27): major by compare-and-swap at the central store, minor by
// upgrade and rollback.
type Incarnation struct{ Major, Minor uint32 }

func (i Incarnation) String() string { return fmt.Sprintf("%d.%d", i.Major, i.Minor) }

// Less orders incarnations as pairs.
func (i Incarnation) Less(o Incarnation) bool {
	return i.Major < o.Major || i.Major == o.Major && i.Minor < o.Minor
}

// Stream names a sink for ever.
type Stream struct{ Gateway, Pipeline, Sink string }

func (s Stream) String() string { return s.Gateway + "/" + s.Pipeline + "/" + s.Sink }

// Progress is the end of the unbroken run that an upstream holds.
type Progress struct {
	Generation  uint64
	Incarnation Incarnation
	Seq         uint64 // 0: nothing yet
	Chain       uint64 // chain hash at Seq; 0 when the endpoint cannot keep it
}

// Batch is what one Send carries: results First..Last without a hole.
type Batch struct {
	Stream      Stream
	Generation  uint64
	Incarnation Incarnation
	Previous    uint64
	First, Last uint64
	Results     []pipeline.Result
}

// IdempotencyKey is the same for the same batch after any crash: bounds and gaps are durable before a batch is sent. A
// batch with gaps has them hashed in: once a record was rejected, the rest is another request, and an endpoint that
// remembers its answer by key must not repeat the refusal.
func (b *Batch) IdempotencyKey() string {
	var d xxhash.Digest
	d.Reset()
	gaps := false
	for i := range b.Results {
		if r := &b.Results[i]; r.Kind == pipeline.ResultGap {
			var p [16]byte
			binary.LittleEndian.PutUint64(p[:8], r.Seq)
			binary.LittleEndian.PutUint64(p[8:], r.Last)
			_, _ = d.Write(p[:]) // never fails
			gaps = true
		}
	}
	if gaps {
		return fmt.Sprintf("%s/%d/%d-%d~%016x", b.Stream, b.Generation, b.First, b.Last, d.Sum64())
	}
	return fmt.Sprintf("%s/%d/%d-%d", b.Stream, b.Generation, b.First, b.Last)
}

// Chain is the chain hash at Last; 0 when it is not known.
func (b *Batch) Chain() uint64 {
	if len(b.Results) == 0 {
		return 0
	}
	return b.Results[len(b.Results)-1].Chain
}

// Rejected is a record that the upstream will never take.
type Rejected struct {
	Seq    uint64
	Reason string
}

// Answer is the upstream's answer to a batch that it did not refuse as a whole.
type Answer struct {
	// Durable is the end of the unbroken run that is durable upstream now; 0 when only Confirm can tell.
	Durable uint64
	// Rejected names records of the batch that the upstream will never take. The others of the batch were not taken either
	// unless Durable covers them.
	Rejected []Rejected
}

// Guarantee is what an endpoint can promise; `weir check` prints it.
type Guarantee string

// The guarantees.
const (
	ExactlyOnce Guarantee = "exactly-once"
	AtLeastOnce Guarantee = "at-least-once"
)

// Endpoint is one upstream for one stream. The sender calls it from one goroutine.
type Endpoint interface {
	// Open fences lower incarnations and returns the end of the unbroken run in the generation. Repeating it is harmless.
	Open(ctx context.Context, s Stream, inc Incarnation, generation uint64) (Progress, error)
	// Send delivers a batch. When it returns with Answer.Durable >= Last, the batch is durable upstream.
	Send(ctx context.Context, b *Batch) (Answer, error)
	// Confirm asks what is durable, for endpoints that answer before that; others return the last Answer.Durable.
	Confirm(ctx context.Context) (uint64, error)
	// Guarantee says what this endpoint promises.
	Guarantee() Guarantee
	Close() error
}
