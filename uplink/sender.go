package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Config bounds a Sender.
type Config struct {
	MaxResults int // of one batch
	MaxBytes   int // of the payloads of one batch; a larger record goes alone
	// MaxRecordBytes turns larger records into dead letters before they are sent; 0: only what the endpoint demands.
	MaxRecordBytes int
	// Timeout of one Open, Send or Confirm.
	Timeout  time.Duration
	Backoff  Backoff
	Priority Priority
}

// Default sends up to 500 results or 256 KiB at once.
func Default() Config {
	return Config{MaxResults: 500, MaxBytes: 256 << 10, Timeout: 30 * time.Second,
		Backoff: Backoff{Min: 200 * time.Millisecond, Max: 30 * time.Second}, Priority: PriorityNormal}
}

// Validate names the first field that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.MaxResults < 1:
		return fmt.Errorf("max_results is %d, allowed is 1 or more", c.MaxResults)
	case c.MaxBytes < 1:
		return fmt.Errorf("max_bytes is %d, allowed is 1 or more", c.MaxBytes)
	case c.MaxRecordBytes < 0:
		return fmt.Errorf("max_record_bytes is %d, allowed is 0 or more", c.MaxRecordBytes)
	case c.Timeout <= 0:
		return fmt.Errorf("timeout is %s, allowed is more than 0", c.Timeout)
	case c.Priority >= priorities:
		return fmt.Errorf("priority is %d, allowed is 0 to %d", c.Priority, priorities-1)
	}
	return c.Backoff.Validate()
}

// DeadLetter is a record that upstream will never take.
type DeadLetter struct {
	Stream      Stream
	Generation  uint64
	Incarnation Incarnation
	Result      pipeline.Result
	Reason      string
}

// SenderOptions are what a Sender works with.
type SenderOptions struct {
	Config
	Stream      Stream
	Generation  uint64
	Incarnation Incarnation
	Queue       Queue
	Endpoint    Endpoint
	// DeadLetter keeps a rejected record; it is durable when it returns nil. Repeats (after a crash) carry the same
	// stream, generation and sequence. Required.
	DeadLetter func(ctx context.Context, d *DeadLetter) error
	Limiter    *Limiter // nil: no limit
	Logger     *slog.Logger
}

// Sender drives one stream from its queue to its endpoint, one batch under way at a time. Run is its only goroutine.
type Sender struct {
	o       SenderOptions
	keyOnly bool
	repeats bool     // KeyOnly or Repeatable: the endpoint keeps no progress
	record  int      // largest payload
	retries int      // failures in a row, over batches and Opens
	told    []string // kinds of failures that were logged since something went through
	log     *slog.Logger
	metrics Metrics
}

// NewSender checks the options.
func NewSender(o SenderOptions) (*Sender, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("uplink %s: %w", o.Stream, err)
	}
	if o.Queue == nil || o.Endpoint == nil || o.DeadLetter == nil {
		return nil, fmt.Errorf("uplink %s: queue, endpoint and dead letter keeper are required", o.Stream)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sender{o: o, record: o.MaxRecordBytes, log: o.Logger.With("stream", o.Stream.String())}
	if k, ok := o.Endpoint.(KeyOnly); ok {
		s.keyOnly, s.repeats = k.KeyOnly(), k.KeyOnly()
	}
	if r, ok := o.Endpoint.(Repeatable); ok {
		s.repeats = s.repeats || r.Repeatable()
	}
	if l, ok := o.Endpoint.(Limits); ok {
		if n := l.MaxRecordBytes(); n > 0 && (s.record == 0 || n < s.record) {
			s.record = n
		}
	}
	return s, nil
}

// Metrics may be read at any time.
func (s *Sender) Metrics() *Metrics { return &s.metrics }

// Run sends until ctx ends (it returns ctx.Err()), the stream is fenced (ErrFenced: final for this process; the results
// stay in the queue) or the queue or the dead letter keeper's caller fails. Everything that upstream or the link does is waited out.
func (s *Sender) Run(ctx context.Context) error {
	for {
		err := s.open(ctx)
		if err == nil {
			err = s.stream(ctx)
		}
		if !errors.Is(err, errReopen) {
			return s.final(err)
		}
	}
}

// errReopen ends the send loop: the endpoint is to be opened again.
var errReopen = errors.New("open again")

func (s *Sender) final(err error) error {
	if errors.Is(err, ErrFenced) {
		s.metrics.Fenced.Store(true)
		s.metrics.fail(err)
		s.log.Error("uplink fenced, its results stay here", "incarnation", s.o.Incarnation.String(), "error", err)
	}
	return err
}

// open asks upstream what it holds until it answers, and puts the queue there.
func (s *Sender) open(ctx context.Context) error {
	for {
		prog, err := s.tryOpen(ctx)
		switch {
		case err == nil:
			return s.seek(ctx, prog)
		case errors.Is(err, ErrFenced):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if err := s.backOff(ctx, err); err != nil {
			return err
		}
	}
}

func (s *Sender) tryOpen(ctx context.Context) (Progress, error) {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	s.metrics.Opened.Add(1)
	prog, err := s.o.Endpoint.Open(ctx, s.o.Stream, s.o.Incarnation, s.o.Generation)
	if err != nil || s.repeats {
		return prog, err
	}
	if s.o.Incarnation.Less(prog.Incarnation) || prog.Generation > s.o.Generation {
		return prog, fmt.Errorf("%w: it is at generation %d, incarnation %s", ErrFenced, prog.Generation, prog.Incarnation)
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
	s.metrics.KnownUpstream.Add(known)
	if lostLast == 0 {
		return nil
	}
	s.metrics.LostUpstream.Add(lostLast - lostFirst + 1)
	s.log.Error("upstream lost results that it had confirmed", "first", lostFirst, "last", lostLast)
	gap := pipeline.Result{Seq: lostFirst, Last: lostLast, Kind: pipeline.ResultGap, Time: pipeline.NoTime,
		Payload: []byte("confirmed before, lost upstream")}
	return s.deliver(ctx, s.batch([]pipeline.Result{gap}))
}

// stream sends batch after batch.
func (s *Sender) stream(ctx context.Context) error {
	for {
		results, err := s.o.Queue.Next(ctx, s.o.MaxResults, s.o.MaxBytes)
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

// deliver sends a batch, in parts where it was split, until upstream holds all of it.
func (s *Sender) deliver(ctx context.Context, whole Batch) error {
	if err := s.refuseLarge(ctx, &whole); err != nil {
		return err
	}
	parts := []Batch{whole}
	for len(parts) > 0 {
		b := &parts[len(parts)-1]
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
	if err := s.o.Limiter.Wait(ctx, bytes, s.o.Priority); err != nil {
		return decision{}, err
	}
	s.metrics.Batches.Add(1)
	s.metrics.Sent.Add(uint64(data))
	s.metrics.Bytes.Add(uint64(bytes))
	sendCtx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	ans, err := s.o.Endpoint.Send(sendCtx, b)
	cancel()
	if ctx.Err() != nil && err != nil {
		return decision{}, ctx.Err()
	}
	d := decide(b, ans, err)
	if d.action == actionConfirm {
		return s.awaitConfirm(ctx, b)
	}
	return d, nil
}

// awaitConfirm asks an endpoint that answers before its data is durable, until it covers the batch.
func (s *Sender) awaitConfirm(ctx context.Context, b *Batch) (decision, error) {
	for n := 0; ; n++ {
		askCtx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		seq, err := s.o.Endpoint.Confirm(askCtx)
		cancel()
		switch {
		case err == nil && seq >= b.Last:
			return decision{action: actionDone, upTo: b.Last}, nil
		case errors.Is(err, ErrFenced):
			return decision{action: actionStop, err: err}, nil
		case errors.Is(err, ErrHole) || err == nil && seq < b.Previous:
			return decision{action: actionReopen, err: errors.Join(ErrHole, err)}, nil
		}
		if err := s.o.Backoff.pause(ctx, n, 0); err != nil {
			return decision{}, err
		}
	}
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

// toldMax bounds how many kinds of failure are logged before something goes through again.
const toldMax = 8

// withoutNumbers makes errors alike that differ in ports, counts and times: each kind of failure is told once.
func withoutNumbers(text string) string {
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return -1
		}
		return r
	}, text)
}

func (s *Sender) backOff(ctx context.Context, err error) error { return s.backOffAtLeast(ctx, err, 0) }

func (s *Sender) backOffAtLeast(ctx context.Context, err error, least time.Duration) error {
	s.metrics.fail(err)
	if s.retries == 0 {
		s.told = s.told[:0]
	}
	if shape := withoutNumbers(err.Error()); len(s.told) < toldMax && !slices.Contains(s.told, shape) {
		s.told = append(s.told, shape)
		s.log.Warn("upstream cannot be reached or refuses, trying on", "error", err)
	}
	n := s.retries
	s.retries++
	return s.o.Backoff.pause(ctx, n, least)
}
