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
	buf     []byte
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

// run encodes the batch's rows and hands them over. A row that cannot be encoded is returned as a dead letter.
func (s *sink) run(ctx context.Context) (dead []pipeline.DeadRow, err error) {
	for i := range s.input.rows {
		r := &s.input.rows[i]
		if cap(s.buf)-len(s.buf) < 512 {
			s.buf = make([]byte, 0, payloadChunk)
		}
		start := len(s.buf)
		b, err := codec.AppendJSON(s.buf, s.columns, s.whole, r.Slots)
		if err != nil {
			dead = append(dead, pipeline.DeadRow{At: r.At, Step: s.uid, Reason: "encode", Detail: err.Error(), Row: *r})
			continue
		}
		s.buf = b
		s.add(r.Pos, r.Time, b[start:len(b):len(b)])
	}
	return dead, s.flush(ctx)
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
