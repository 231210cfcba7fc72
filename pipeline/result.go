package pipeline

import "context"

// ResultKind tells data from what only occupies a sequence number.
type ResultKind uint8

const (
	// ResultData is a row of a sink.
	ResultData ResultKind = 1
	// ResultGap is a range that was dropped, expired or rejected: it occupies its sequences (uplink/DESIGN.md).
	ResultGap ResultKind = 2
)

// Result is the seq-th result of a sink's stream in a generation. The same (stream, generation, seq) has the same
// bytes in every replay when all operators upstream are deterministic.
type Result struct {
	Seq     uint64
	Last    uint64 // ResultGap: last sequence of the range; else Seq
	Chain   uint64 // chain hash up to and including Seq
	Pos     Position
	Kind    ResultKind
	Time    int64  // event time ms, NoTime if none: for partitioning and TTL
	Payload []byte // the encoded row; for ResultGap a UTF-8 reason
}

// ResultSink takes the results of one sink in sequence. The outbox (through agent) implements it.
type ResultSink interface {
	// Emit hands over results in rising sequence. It takes ownership of the slice's elements and their payloads. It may block: that is backpressure.
	Emit(ctx context.Context, results []Result) error
	// Barrier says that everything emitted so far belongs to checkpoint b. It does not wait for the disk.
	Barrier(ctx context.Context, b Barrier) error
}
