package uplink

import (
	"context"
	"errors"

	"github.com/weirstream/weir/pipeline"
)

// open asks upstream what it holds until it answers, and puts the queue there.
func (s *Sender) open(ctx context.Context) error {
	for {
		prog, err := s.tryOpen(ctx)
		switch {
		case err == nil:
			if err = s.seek(ctx, prog); err == nil {
				s.metrics.Prepared.Store(true)
			}
			return err
		case errors.Is(err, ErrFenced):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := s.backOff(ctx, err); err != nil {
			return err
		}
		if err := s.allowed(ctx); err != nil {
			return err
		}
	}
}

func (s *Sender) tryOpen(ctx context.Context) (Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	s.metrics.Opened.Add(1)
	defer s.metrics.Answered.Store(true)
	prog, err := s.o.Endpoint.Open(ctx, s.o.Stream, s.o.Incarnation, s.o.Generation)
	s.note() // of one that refuses as well: it may be why
	if err != nil || s.repeats {
		return prog, err
	}
	if s.o.Incarnation.Less(prog.Incarnation) || prog.Generation > s.o.Generation {
		return prog, &Fenced{Where: s.o.Stream.String(), Generation: prog.Generation, Incarnation: prog.Incarnation}
	}
	return prog, nil
}

// seek puts the queue where upstream ends. What upstream lost although it had confirmed it is sent as a gap: the stream
// goes on, and the loss is counted.
func (s *Sender) seek(ctx context.Context, prog Progress) error {
	if s.repeats {
		s.o.Queue.Resume()
		return nil
	}
	known, lostFirst, lostLast, err := s.o.Queue.Seek(prog.Generation, prog.Seq, prog.Chain)
	if err != nil {
		return err
	}
	if s.metrics.KnownUpstream.Add(known); known > 0 { // what was given up had arrived
		s.metrics.lastError.Store(nil)
	}
	if lostLast == 0 {
		return nil
	}
	s.metrics.LostUpstream.Add(lostLast - lostFirst + 1)
	s.log.Error("upstream lost results that it had confirmed", "first", lostFirst, "last", lostLast)
	gap := pipeline.Result{Seq: lostFirst, Last: lostLast, Kind: pipeline.ResultGap, Time: pipeline.NoTime,
		Payload: []byte("confirmed before, lost upstream")}
	return s.deliver(ctx, s.batch([]pipeline.Result{gap}))
}
