package postgres

import (
	"context"
	"strings"

	"github.com/weirstream/weir/uplink"
)

// faults are planted by tests, which must find them. The zero value has none.
type faults struct {
	apart   bool            // the progress row moves in a transaction of its own, behind the rows
	noFence bool            // neither Send nor its statement looks whose the progress row is, nor where it is
	byBatch map[string]bool // a batch is known by its bounds, not by its sequences
	// between runs between rows and progress when they are apart; an error stands for a crash there.
	between func() error
	// beforeWrite runs between a look at the progress row and the statement that moves it: there others move it.
	beforeWrite func()
}

// writeApart is the planted fault: rows first, progress after, each in its own transaction.
func (s *Sink) writeApart(ctx context.Context, next row) (uplink.Answer, bool, error) {
	t := s.table
	same := next
	same.seq, same.chain = s.row.seq, s.row.chain
	if n, err := s.exec(ctx, t.params(s.stream.String(), &s.row, &same)); err != nil || n == 0 {
		return uplink.Answer{}, false, err
	}
	if s.fault.between != nil {
		if err := s.fault.between(); err != nil {
			s.drop()
			return uplink.Answer{}, false, err
		}
	}
	sql := "UPDATE " + qualified(s.config.Schema, progressTable) + " SET generation = $2, seq = $3, chain = $4 WHERE stream = $1"
	p := t.params(s.stream.String(), &s.row, &next)
	if res := s.conn.ExecParams(ctx, strings.TrimSpace(sql), p[:4], nil, nil, nil).Read(); res.Err != nil {
		return uplink.Answer{}, false, res.Err
	}
	s.row = next
	return uplink.Answer{Durable: next.seq}, true, nil
}

// writeUnfenced is the planted fault: what comes is written, whoever sends it and whatever is held.
func (s *Sink) writeUnfenced(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	if s.fault.byBatch != nil {
		if s.fault.byBatch[b.IdempotencyKey()] {
			return uplink.Answer{Durable: b.Last}, nil
		}
		s.fault.byBatch[b.IdempotencyKey()] = true
	}
	held := b.Previous
	if s.fault.byBatch == nil {
		held = max(held, s.row.seq)
	}
	ans, _, err := s.write(ctx, b, held)
	return ans, s.refusal(err)
}
