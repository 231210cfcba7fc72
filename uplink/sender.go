package uplink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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
	Link       *Link // nil: no limit
	Logger     *slog.Logger
}

// Sender drives one stream from its queue to its endpoint, one batch under way at a time. Run is its only goroutine.
type Sender struct {
	o       SenderOptions
	keyOnly bool
	repeats bool // KeyOnly or Repeatable: the endpoint keeps no progress
	record  int  // largest payload
	retries int  // failures in a row, over batches and Opens
	pace    pace
	told    Told
	log     *slog.Logger
	metrics Metrics
	patient bool // planted fault: what is not confirmed is asked for without end
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
	s := &Sender{o: o, record: o.MaxRecordBytes, pace: newPace(o.MaxResults), log: o.Logger.With("stream", o.Stream.String())}
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
		err := s.allowed(ctx)
		if err == nil {
			err = s.open(ctx)
		}
		if err == nil {
			err = s.stream(ctx)
		}
		if !errors.Is(err, errReopen) {
			return s.final(err)
		}
	}
}

// allowed waits until the link may be used.
func (s *Sender) allowed(ctx context.Context) error {
	return s.o.Link.await(ctx, s.o.Priority, s.metrics.hold)
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
