// Package mqttsink delivers a stream to topics of an MQTT 5 broker.
//
// A broker keeps no sequence for its publishers, so the sink keeps its own there: a retained message, the progress. All is read and written on one
// connection, whose client id is the stream's: a broker gives a client id to one connection at a time, and so whoever has read the progress and
// is still connected is the only writer. That is the fence.
//
// QoS 1: results, then the progress behind them. What was sent and is not in the progress comes again, with the same sequence.
//
// QoS 2 is a commit in two steps, with the broker's session as the store of what is prepared. A result's packet id is a function of its sequence.
// PUBLISH until PUBREC prepares it, and a repeat with the same id is no second message. The progress decides. PUBREL releases, and
// the progress says so. FORMAT.md has the messages and what each crash leaves behind.
package mqttsink

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/fence"
)

// Sink implements uplink.Endpoint for one stream. It belongs to one sender goroutine and has none of its own.
type Sink struct {
	config Config
	topic  *template

	opening       fence.Opening
	bound         *template // topic with the stream's names
	clientID      string
	progressTopic string
	gapTopic      string
	markTopic     string

	conn  *connection // nil: to be opened before anything is sent
	state progress
	// doubt: up to this sequence the broker may have something else prepared than what is sent now. QoS 2.
	doubt     uint64
	careful   bool   // the broker refused something for now: one message at a time
	again     bool   // the next connection begins with a session of its own
	announced string // limits, as the broker said them last
	buf       []byte
	lingers   time.Duration // retainedWait; shorter in tests whose broker answers in order

	// at is called between the steps; tests break off there.
	at    func(point string) error
	plant planted
}

// planted are faults that tests must find.
type planted struct {
	noFence      bool   // a lower incarnation may open and send
	deaf         bool   // what was sent counts as taken
	freshIDs     uint64 // each process has other packet ids
	earlyRelease bool   // results are released before the progress decides
	blindSession bool   // a session that is there is believed to be the one that has everything prepared
}

// New checks the configuration. It connects when the stream is opened.
func New(c Config) (*Sink, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	t, err := parseTopic(c.Topic)
	if err != nil {
		return nil, err
	}
	return &Sink{config: c, topic: t, lingers: retainedWait, at: func(string) error { return nil }}, nil
}

// Guarantee is at least once: consumers that deduplicate by stream and sequence have each result once. At QoS 2 the broker has it once
// besides, for as long as it keeps the session.
func (s *Sink) Guarantee() uplink.Guarantee { return uplink.AtLeastOnce }

// Confirm gives the end of the run.
func (s *Sink) Confirm(context.Context) (uint64, error) { return s.state.released, nil }

// Announced names the broker's limits.
func (s *Sink) Announced() string { return s.announced }

// Close disconnects. The broker keeps what it has.
func (s *Sink) Close() error {
	s.opening.Close()
	s.drop()
	return nil
}

func (s *Sink) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// Open connects, reads the progress back, fences lower incarnations and releases what was decided.
func (s *Sink) Open(ctx context.Context, stream uplink.Stream, inc uplink.Incarnation, generation uint64) (uplink.Progress, error) {
	s.opening.Begin(stream, inc, generation)
	s.bound = s.topic.bind(stream)
	s.clientID = clientID(stream)
	place := string(appendLevel(nil, []byte(stream.Gateway))) + "/" + string(appendLevel(nil, []byte(stream.Pipeline))) + "/" + string(appendLevel(nil, []byte(stream.Sink)))
	place = s.config.Control + "/" + place
	s.progressTopic, s.gapTopic, s.markTopic = place+"/progress", place+"/gaps", place+"/session"
	err := s.connect(ctx)
	if s.opening.End(err); err != nil {
		return uplink.Progress{}, err
	}
	return s.state.Progress(), nil
}

// clientID is the stream's own. Letters and digits, at most 23: what every broker takes.
func clientID(s uplink.Stream) string {
	return fmt.Sprintf("weir%016x", xxhash.Sum64String(s.String()))
}

// connect makes a connection on which the progress was read, this incarnation has opened, and nothing decided waits for its release.
func (s *Sink) connect(ctx context.Context) error {
	s.drop()
	err := s.join(ctx, s.config.QoS == 1 || s.again)
	if errors.Is(err, errAnew) {
		s.drop()
		err = s.join(ctx, true)
	}
	if err != nil {
		if errors.Is(err, uplink.ErrFenced) { // also of a connection that is made anew
			s.opening.End(err)
		}
		s.drop()
		return err
	}
	s.again = false
	return nil
}

// errAnew asks for a session without what an earlier one has prepared.
var errAnew = errors.New("the session is to begin anew")

func (s *Sink) join(ctx context.Context, clean bool) (err error) {
	if s.conn, err = s.dial(ctx, clean); err != nil {
		return err
	}
	st, err := s.readBack(ctx, s.conn)
	if err != nil {
		return fmt.Errorf("read progress: %w", err)
	}
	if err := st.Admit(s.progressTopic, s.opening.Incarnation, s.opening.Generation, s.config.Board); err != nil && !s.plant.noFence {
		return err
	}
	s.state, s.doubt = st, 0
	if err := s.settle(ctx); err != nil {
		return err
	}
	if !s.state.OpenedBy(s.opening.Incarnation, s.opening.Generation, s.config.Board) {
		if s.conn.present { // what the one before has prepared behind the run may be something else
			return errAnew
		}
		st := s.state
		st.Take(s.opening.Incarnation, s.opening.Generation, s.config.Board)
		if err := s.write(ctx, st); err != nil {
			return err
		}
	}
	if s.config.QoS == 1 {
		return nil
	}
	if s.conn.present {
		s.doubt = s.state.Seq + spanMax
	}
	return s.mark(ctx)
}

// settle releases what was decided and not released. Where the session is not the one that has it prepared, it was never handed on, or it was: it
// is sent again.
func (s *Sink) settle(ctx context.Context) error {
	if s.state.released == s.state.Seq {
		return nil
	}
	found := s.conn.present
	if found && !s.plant.blindSession {
		var err error
		if found, err = s.marked(ctx); err != nil {
			return err
		}
	}
	if found {
		return s.release(ctx, true)
	}
	st := s.state
	s.config.Logger.Warn("mqtt session was lost with results under way, they are sent again", "stream", s.opening.Stream.String(), "first", st.released+1, "last", st.Seq)
	st.Seq, st.Chain = st.released, 0
	return s.write(ctx, st)
}
