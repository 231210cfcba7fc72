// Package nats delivers a stream to a subject of NATS JetStream, exactly once: each batch is appended only where the subject ends as this
// sink knows it, and after a lost answer the subject's last message is read back. It does not stand on Nats-Msg-Id, whose memory is
// two minutes. FORMAT.md has the messages.
//
// A batch is as durable as JetStream's answer: see FORMAT.md on sync_interval.
package nats

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/fence"
)

// Sink implements uplink.Endpoint for one stream. It belongs to one sender goroutine. The library's goroutines of the
// connection end with Close.
type Sink struct {
	config Config
	conn   *nats.Conn
	atomic bool // the stream takes atomic batches
	warned bool

	opening fence.Opening
	subject string
	state   state

	// publish appends messages behind a stream sequence; tests put faults before it.
	publish func(ctx context.Context, messages []*nats.Msg, behind uint64) (last uint64, err error)
	plant   planted
}

// planted are faults that tests must find.
type planted struct {
	noFence  bool // a lower incarnation may open and send
	blind    bool // messages are appended wherever the subject ends
	noExpect bool // the same, known by Nats-Msg-Id alone
}

// New checks the configuration. It connects when the stream is opened.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Sink{config: c}
	s.publish = s.appendMessages
	return s, nil
}

// Guarantee is exactly once.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.ExactlyOnce }

// Confirm gives the end of the run: everything that Send accepted is in the stream.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.state.Seq, nil }

// Close closes the connection.
func (s *Sink) Close() error {
	s.opening.Close()
	s.drop()
	return nil
}

// openTries bounds the tries of one Open. Behind it lies ErrContended: the sender comes again.
const openTries = 5

// Open reads the last message back and appends an opening, which fences lower incarnations, unless it is this one's already.
func (s *Sink) Open(ctx context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.opening.Begin(stream, inc, generation)
	s.subject = s.config.Subject + "." + escape(stream.Gateway) + "." + escape(stream.Pipeline) + "." + escape(stream.Sink)
	err := s.open(ctx, inc, generation)
	if s.opening.End(err); err != nil {
		return uplink.Progress{}, err
	}
	return s.state.Progress(), nil
}

func (s *Sink) open(ctx context.Context, inc uplink.Incarnation, generation uint64) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	if err := s.inspect(ctx); err != nil {
		return err
	}
	for range openTries {
		if err := s.take(ctx, inc, generation); !errors.Is(err, errMoved) { // else another one appended meanwhile: look again who is higher
			return err
		}
	}
	return fmt.Errorf("open %s: %w", s.subject, uplink.ErrContended)
}

func (s *Sink) take(ctx context.Context, inc uplink.Incarnation, generation uint64) error {
	st, err := s.readBack(ctx)
	if err != nil {
		return err
	}
	if err := st.Admit(s.subject, inc, generation, s.config.Board); err != nil && !s.plant.noFence {
		return err
	}
	if st.OpenedBy(inc, generation, s.config.Board) {
		s.state = st
		return nil
	}
	st.Take(inc, generation, s.config.Board)
	if !s.plant.noFence {
		if st.last, err = s.publish(ctx, []*nats.Msg{s.openMessage(&st)}, st.last); err != nil {
			return err
		}
	}
	s.state = st
	return nil
}

// Send appends what the run does not hold yet.
func (s *Sink) Send(ctx context.Context, b *uplink.Batch) (uplink.Answer, error) {
	err := s.opening.Admit(b, func() error {
		_, err := s.Open(ctx, b.Stream, s.opening.Incarnation, s.state.Opened)
		return err
	})
	if err != nil {
		return uplink.Answer{}, err
	}
	held, err := s.state.Continues(s.subject, b)
	if errors.Is(err, uplink.ErrFenced) && s.plant.noFence {
		held, err = s.state.Seq, nil
	}
	if err != nil {
		return uplink.Answer{}, err
	}
	if b.Last <= held {
		return uplink.Answer{Durable: held}, nil
	}
	return s.append(ctx, b, held)
}

// batchMax is the server's limit of an atomic batch.
const batchMax = 1000

// append sends the results behind held, in groups that go as one.
func (s *Sink) append(ctx context.Context, b *uplink.Batch, held uint64) (uplink.Answer, error) {
	group := 1
	if s.atomic {
		group = batchMax
	}
	var messages []*nats.Msg
	for i := range b.Results {
		r := b.Results[i]
		if r.Last <= held {
			continue
		}
		r.Seq = max(r.Seq, held+1)
		messages = append(messages, s.resultMessage(b, &r))
		if len(messages) < group && i < len(b.Results)-1 {
			continue
		}
		last, err := s.publish(ctx, messages, s.state.last)
		switch {
		case errors.Is(err, errMoved):
			return uplink.Answer{}, s.moved(ctx)
		case err != nil:
			s.opening.Doubt()
			return uplink.Answer{}, err
		}
		s.state.last, s.state.Generation, s.state.Seq, s.state.Chain = last, b.Generation, r.Last, r.Chain
		messages = messages[:0]
	}
	return uplink.Answer{Durable: s.state.Seq}, nil
}

// moved says what it means that the subject does not end where it was known to: another writer, or an earlier batch of this one.
func (s *Sink) moved(ctx context.Context) error {
	s.opening.Doubt()
	st, err := s.readBack(ctx)
	if err != nil {
		return err
	}
	if err := st.Admit(s.subject, s.opening.Incarnation, s.state.Opened, s.config.Board); err != nil && !s.plant.noFence {
		return err
	}
	return fmt.Errorf("%w: %s: %w", uplink.ErrHole, s.subject, errMoved)
}

// appendMessages appends messages as one behind a stream sequence, and gives that of the last one. errMoved: none was.
func (s *Sink) appendMessages(ctx context.Context, messages []*nats.Msg, behind uint64) (uint64, error) {
	conn := s.conn
	if conn == nil {
		return 0, nats.ErrConnectionClosed
	}
	if !s.plant.noExpect && !s.plant.blind {
		messages[0].Header["Nats-Expected-Last-Subject-Sequence"] = number(behind)
	} else if seq := messages[0].Header.Get(headerSeq); s.plant.noExpect && messages[0].Header.Get(headerKind) != kindOpen {
		messages[0].Header["Nats-Msg-Id"] = []string{s.subject + "/" + seq}
	}
	n := len(messages)
	if n > 1 {
		id := nuid.Next()
		for i, m := range messages {
			m.Header["Nats-Batch-Id"] = []string{id}
			m.Header["Nats-Batch-Sequence"] = []string{strconv.Itoa(i + 1)}
		}
		messages[n-1].Header["Nats-Batch-Commit"] = []string{"1"}
		for _, m := range messages[:n-1] {
			if err := conn.PublishMsg(m); err != nil {
				if errors.Is(err, nats.ErrMaxPayload) {
					return 0, fmt.Errorf("%w: %w", uplink.ErrTooLarge, err)
				}
				return 0, fmt.Errorf("publish to %s: %w", s.subject, err)
			}
		}
	}
	var ack struct {
		Error  *apiError `json:"error"`
		Stream string    `json:"stream"`
		Seq    uint64    `json:"seq"`
		Count  int       `json:"count"`
	}
	if err := s.ask(ctx, conn, messages[n-1], &ack, &ack.Error); err != nil {
		return 0, err
	}
	if ack.Stream != s.config.Stream || ack.Seq <= behind || n > 1 && ack.Count != n {
		return 0, fmt.Errorf("publish to %s: the answer is not one to %d messages: stream %.40q, sequence %d, count %d", s.subject, n, ack.Stream, ack.Seq, ack.Count)
	}
	return ack.Seq, nil
}
