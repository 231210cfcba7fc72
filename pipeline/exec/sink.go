package exec

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// DeadSink is the uid of the stream of dead letters that every pipeline has.
const DeadSink = "$dead"

// sink numbers and encodes the rows of one edge. Its task's goroutine owns it.
type sink struct {
	uid     string
	columns []codec.Column
	whole   int
	input   *edge
	target  pipeline.ResultSink
	mark    pipeline.SinkMark
	results []pipeline.Result
	pool    *pool // nil: the task encodes alone
	lanes   []encodeLane
	encoded []encoded // of the batch's rows
	loss    *Loss     // nil: none
	marks   lossColumns
	head    int // rows of the batch that have been handed over
}

// encodeLane is the memory of one that encodes. Payloads are handed over with the results, so that a chunk is never used again.
type encodeLane struct {
	chunk []byte
	_     [64]byte // no cache line with the next one
}

// encoded is a row's payload, or why there is none.
type encoded struct {
	payload []byte
	err     error
}

// payloadChunk is how many bytes of payloads share one allocation.
const payloadChunk = 16 << 10

// NextChain is the chain hash behind a payload (DESIGN.md, "Sinks").
func NextChain(chain uint64, payload []byte) uint64 {
	var d xxhash.Digest
	d.Reset()
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], chain)
	d.Write(b[:])
	d.Write(payload)
	return d.Sum64()
}

// The rows that are encoded and handed over at once: what one message can make of itself (an array of thousands of elements, each with the
// document beside it) is not held whole.
const (
	handRows  = 512
	handBytes = 8 << 20
)

// run encodes what there is of the batch's rows and hands it over, a part at a time. A row that cannot be encoded is returned as a dead letter.
func (s *sink) run(ctx context.Context) (dead []pipeline.DeadRow, err error) {
	if s.input.state == waiting {
		return nil, nil
	}
	rows := s.input.rows[s.head:]
	for s.head = len(s.input.rows); len(rows) > 0; {
		part := rows[:partOf(rows)]
		rows = rows[len(part):]
		if dead, err = s.hand(ctx, part, dead); err != nil {
			return nil, err
		}
	}
	return dead, nil
}

// partOf tells how many of the rows to encode at once: pure. They are about as long as the first.
func partOf(rows []pipeline.Row) int {
	text := 1
	for _, v := range rows[0].Slots {
		text += len(v.Str)
	}
	return min(len(rows), max(1, min(handRows, handBytes/text)))
}

func (s *sink) hand(ctx context.Context, rows []pipeline.Row, dead []pipeline.DeadRow) ([]pipeline.DeadRow, error) {
	if cap(s.encoded) < len(rows) {
		s.encoded = make([]encoded, max(len(rows), 2*cap(s.encoded)))
	}
	s.encoded = s.encoded[:len(rows)]
	if err := s.encode(rows); err != nil {
		return nil, fmt.Errorf("sink %s: %w", s.uid, err)
	}
	for i := range rows {
		r, e := &rows[i], &s.encoded[i]
		if e.err != nil {
			dead = append(dead, pipeline.DeadRow{At: r.At, Step: s.uid, Reason: "encode", Detail: e.err.Error(), Row: *r})
			continue
		}
		s.add(r.Pos, r.Time, e.payload)
	}
	clear(s.encoded)
	return dead, s.flush(ctx)
}

// encode makes the payloads, each lane a run of rows. The bytes of a row depend on that row alone.
func (s *sink) encode(rows []pipeline.Row) error {
	if s.pool == nil || len(rows) < aloneRows {
		s.lanes[0].encode(s, rows, s.encoded)
		return nil
	}
	return s.pool.do(func(part int) error {
		from, to := share(len(rows), part, len(s.lanes))
		s.lanes[part].encode(s, rows[from:to], s.encoded[from:to])
		return nil
	})
}

func (l *encodeLane) encode(s *sink, rows []pipeline.Row, into []encoded) {
	for i := range rows {
		if cap(l.chunk)-len(l.chunk) < 512 {
			l.chunk = make([]byte, 0, payloadChunk)
		}
		start := len(l.chunk)
		b, err := codec.AppendJSON(l.chunk, s.columns, s.whole, rows[i].Slots)
		if err != nil {
			into[i] = encoded{err: err}
			continue
		}
		b = otherResult(s.marks.mark(b, s.loss, rows[i].Pos, rows[i].Slots))
		l.chunk = b
		into[i] = encoded{payload: b[start:len(b):len(b)]}
	}
}

// shrink lets go of what a burst has left; between batches.
func (s *sink) shrink() {
	s.encoded, s.results = nil, nil
	for i := range s.lanes {
		s.lanes[i].chunk = nil
	}
}

func (s *sink) add(pos pipeline.Position, time int64, payload []byte) {
	s.mark.Seq++
	s.mark.Chain = NextChain(s.mark.Chain, payload)
	s.results = append(s.results, pipeline.Result{
		Seq: s.mark.Seq, Last: s.mark.Seq, Chain: s.mark.Chain, Pos: pos, Kind: pipeline.ResultData, Time: time, Payload: payload,
	})
}

func (s *sink) flush(ctx context.Context) error {
	if len(s.results) == 0 {
		return nil
	}
	err := s.target.Emit(ctx, s.results)
	clear(s.results)
	s.results = s.results[:0]
	if err != nil {
		return fmt.Errorf("sink %s: %w", s.uid, err)
	}
	return nil
}
