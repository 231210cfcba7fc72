package uplink

import (
	"context"

	"github.com/weirstream/weir/pipeline"
)

// stream sends batch after batch.
func (s *Sender) stream(ctx context.Context) error {
	for {
		if err := s.allowed(ctx); err != nil { // before Next: what the sender has can neither expire nor be dropped
			return err
		}
		results, err := s.o.Queue.Next(ctx, s.pace.bound, s.o.MaxBytes)
		if err != nil {
			return err
		}
		if err := s.deliver(ctx, s.batch(results)); err != nil {
			return err
		}
	}
}

func (s *Sender) batch(results []pipeline.Result) Batch {
	b := Batch{Stream: s.o.Stream, Generation: s.o.Generation, Incarnation: s.o.Incarnation}
	return part(&b, results)
}

// deliver sends a batch, in parts where it was split or the link is bad, until upstream holds all of it. A batch that is known by its key alone is
// never cut in another way: only the next one is smaller.
func (s *Sender) deliver(ctx context.Context, whole Batch) error {
	if err := s.refuseLarge(ctx, &whole); err != nil {
		return err
	}
	parts := []Batch{whole}
	for len(parts) > 0 {
		b := &parts[len(parts)-1]
		if !s.keyOnly && len(b.Results) > s.pace.bound {
			left, right := part(b, b.Results[:s.pace.bound]), part(b, b.Results[s.pace.bound:])
			*b = right
			parts = append(parts, left)
			continue
		}
		d, err := s.send(ctx, b)
		if err != nil {
			return err
		}
		if d.err != nil {
			s.metrics.fail(d.err)
		}
		switch d.action {
		case actionDone:
			s.retries = 0
			s.pace.arrived(len(b.Results))
			if err := s.confirm(b.Last, b.Chain(), b.Last-b.Previous); err != nil {
				return err
			}
			parts = parts[:len(parts)-1]
		case actionPartial:
			if err := s.confirmPart(b, d.upTo); err != nil {
				return err
			}
			*b = behind(b, d.upTo)
		case actionReject:
			if d.upTo > b.Previous && d.upTo < b.Last {
				if err := s.confirmPart(b, d.upTo); err != nil {
					return err
				}
				*b = behind(b, d.upTo)
			}
			if err := s.reject(ctx, b, d.rejected); err != nil {
				return err
			}
		case actionSplit:
			s.metrics.Splits.Add(1)
			left, right := halves(b)
			*b = right
			parts = append(parts, left)
		case actionAgain:
			s.metrics.Retried.Add(1)
			if !d.busy {
				s.pace.cut(len(b.Results))
			}
			if err := s.backOffAtLeast(ctx, d.err, d.wait); err != nil {
				return err
			}
		case actionReopen:
			if err := s.backOff(ctx, d.err); err != nil {
				return err
			}
			return errReopen
		case actionStop:
			return d.err
		}
	}
	return nil
}

// send brings one batch to upstream once and decides on the answer. An error is final for the sender.
func (s *Sender) send(ctx context.Context, b *Batch) (decision, error) {
	data, bytes := 0, 0
	for i := range b.Results {
		if b.Results[i].Kind == pipeline.ResultData {
			data++
			bytes += len(b.Results[i].Payload)
		}
	}
	if s.repeats && data == 0 { // nothing that such an endpoint could be told
		return decision{action: actionDone, upTo: b.Last}, nil
	}
	if s.keyOnly {
		if err := s.o.Queue.Bind(ctx, b.First, b.Last); err != nil {
			return decision{}, err
		}
	}
	if err := s.allowed(ctx); err != nil { // the window may have closed while the batch was tried
		return decision{}, err
	}
	if err := s.o.Link.spend(ctx, bytes, s.o.Priority); err != nil {
		return decision{}, err
	}
	s.metrics.Batches.Add(1)
	s.metrics.Sent.Add(uint64(data))
	s.metrics.Bytes.Add(uint64(bytes))
	sendCtx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	ans, err := s.o.Endpoint.Send(sendCtx, b)
	cancel()
	s.note() // it may have connected anew
	if ctx.Err() != nil && err != nil {
		return decision{}, ctx.Err()
	}
	d := decide(b, ans, err)
	if d.action == actionConfirm {
		return s.awaitConfirm(ctx, b)
	}
	return d, nil
}

func (s *Sender) confirm(seq, chain, n uint64) error {
	s.metrics.confirm(n)
	return s.o.Queue.Confirm(seq, chain)
}

// confirmPart confirms the head of a batch.
func (s *Sender) confirmPart(b *Batch, upTo uint64) error {
	chain := uint64(0)
	if i := indexOf(b.Results, upTo); i >= 0 && b.Results[i].Last == upTo {
		chain = b.Results[i].Chain
	}
	return s.confirm(upTo, chain, upTo-b.Previous)
}
