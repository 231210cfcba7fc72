package uplink

import (
	"context"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// refuseLarge takes records out that the endpoint could never take.
func (s *Sender) refuseLarge(ctx context.Context, b *Batch) error {
	if s.record == 0 {
		return nil
	}
	var large []Rejected
	for i := range b.Results {
		r := &b.Results[i]
		if r.Kind == pipeline.ResultData && len(r.Payload) > s.record {
			large = append(large, Rejected{Seq: r.Seq, Reason: fmt.Sprintf("record of %d bytes, the sink takes %d", len(r.Payload), s.record)})
		}
	}
	return s.reject(ctx, b, large)
}

// reject turns records into dead letters and gaps. The dead letter is durable before the skip, the skip before the gap is
// sent: a crash in between repeats the step.
func (s *Sender) reject(ctx context.Context, b *Batch, rejected []Rejected) error {
	for _, r := range rejected {
		i := indexOf(b.Results, r.Seq)
		if i < 0 || b.Results[i].Kind != pipeline.ResultData {
			continue
		}
		res := &b.Results[i]
		d := DeadLetter{Stream: b.Stream, Generation: b.Generation, Incarnation: b.Incarnation, Result: *res, Reason: r.Reason}
		for n := 0; ; n++ {
			err := s.o.DeadLetter(ctx, &d)
			if err == nil {
				break
			}
			s.log.Error("dead letter could not be kept, the record waits", "seq", r.Seq, "error", err)
			if err := s.o.Backoff.pause(ctx, n, 0); err != nil {
				return err
			}
		}
		reason := "rejected: " + r.Reason
		if err := s.o.Queue.Skip(ctx, r.Seq, r.Seq, reason); err != nil {
			return err
		}
		s.metrics.Rejected.Add(1)
		s.log.Warn("record rejected by upstream", "seq", r.Seq, "reason", r.Reason)
		res.Kind, res.Payload, res.Time = pipeline.ResultGap, []byte(reason), pipeline.NoTime
	}
	return nil
}
