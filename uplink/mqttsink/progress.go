package mqttsink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/fence"
	"github.com/weirstream/weir/uplink/wire"
)

// ErrForeign says that the progress topic holds a message that is not this stream's progress.
var ErrForeign = errors.New("the progress topic holds a message that is not weir's")

// progress is the retained message of a stream. Up to Released results have been handed on; those behind it up to Seq are decided: at QoS 2
// they lie at the broker, only their release is missing.
type progress struct {
	fence.State
	released uint64
}

type progressJSON struct {
	Stream      string `json:"stream"`
	Incarnation string `json:"incarnation"`
	Board       string `json:"board"`
	Opened      uint64 `json:"opened"`
	Generation  uint64 `json:"generation"`
	Seq         uint64 `json:"seq"`
	Released    uint64 `json:"released"`
	Chain       string `json:"chain"`
}

func (p *progress) encode(s uplink.Stream) []byte {
	b, err := json.Marshal(progressJSON{s.String(), p.Incarnation.String(), p.Board, p.Opened, p.Generation, p.Seq, p.released, wire.FormatChain(p.Chain)})
	if err != nil {
		panic("BUG: progress cannot be encoded: " + err.Error())
	}
	return b
}

func decodeProgress(b []byte, s uplink.Stream) (p progress, err error) {
	var j progressJSON
	if err := json.Unmarshal(b, &j); err != nil {
		return p, fmt.Errorf("%w: %.80q: %w", ErrForeign, b, err)
	}
	p.Board, p.Opened, p.Generation, p.Seq, p.released = j.Board, j.Opened, j.Generation, j.Seq, j.Released
	var errInc, errChain, errRange error
	p.Incarnation, errInc = wire.ParseIncarnation(j.Incarnation)
	p.Chain, errChain = wire.ParseChain(j.Chain)
	if j.Stream != s.String() || p.Opened < p.Generation || p.Generation == 0 || p.released > p.Seq {
		errRange = fmt.Errorf("stream %q, generation %d of %d, %d of %d", j.Stream, p.Generation, p.Opened, p.released, p.Seq)
	}
	if err := errors.Join(errInc, errChain, errRange); err != nil {
		return p, fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return p, nil
}

// retainedWait is how long a progress message is awaited that did not come before the answer to a PINGREQ: some brokers look retained
// messages up beside the connection. It passes when a stream is begun, or its progress is lost.
const retainedWait = 500 * time.Millisecond

// readBack subscribes to the progress topic for as long as the retained message takes. The zero progress: there is none.
func (s *Sink) readBack(ctx context.Context, c *connection) (p progress, err error) {
	defer c.limit(ctx)()
	found := false
	take := func(topic, payload []byte) error {
		if string(topic) != s.progressTopic || len(payload) == 0 {
			return nil
		}
		found = true
		p, err = decodeProgress(payload, s.opening.Stream)
		return err
	}
	if _, err := c.net.Write(append(appendSubscribe(nil, s.progressTopic), packetPingreq<<4, 0)); err != nil {
		return p, err
	}
	if err := c.await(take, packetSuback, packetPingresp); err != nil {
		return p, fmt.Errorf("subscribe to %s: %w", s.progressTopic, err)
	}
	if !found {
		if err := c.linger(ctx); err != nil {
			return p, err
		}
	}
	if _, err := c.net.Write(appendPacket(nil, packetUnsub, 2, appendText([]byte{0, 1, 0}, s.progressTopic))); err != nil {
		return p, err
	}
	return p, c.await(take, packetUnsuback)
}

// mark makes the session one that holds what is prepared from now on: it is made when nothing decided waits for its release. The mark is a
// subscription, for that is what a session has and a new one has not.
func (s *Sink) mark(ctx context.Context) error {
	defer s.conn.limit(ctx)()
	if _, err := s.conn.net.Write(appendSubscribe(nil, s.markTopic)); err != nil {
		return err
	}
	if err := s.conn.await(nil, packetSuback); err != nil {
		return fmt.Errorf("subscribe to %s: %w", s.markTopic, err)
	}
	return nil
}

// marked says whether the session has the mark, by a message to itself. One that comes too late counts as none: results come twice then,
// and none is lost.
func (s *Sink) marked(ctx context.Context) (found bool, err error) {
	defer s.conn.limit(ctx)()
	m := publish{topic: []byte(s.markTopic), payload: []byte("?")}
	if _, err := s.conn.net.Write(append(m.append(nil), packetPingreq<<4, 0)); err != nil {
		return false, err
	}
	take := func(topic, _ []byte) error {
		found = found || string(topic) == s.markTopic
		return nil
	}
	if err := s.conn.await(take, packetPingresp); err != nil || found {
		return found, err
	}
	if err := s.conn.linger(ctx); err != nil {
		return false, err
	}
	if _, err := s.conn.net.Write([]byte{packetPingreq << 4, 0}); err != nil {
		return false, err
	}
	err = s.conn.await(take, packetPingresp)
	return found, err
}

// appendSubscribe asks for a topic with QoS 0, and its retained message.
func appendSubscribe(packets []byte, topic string) []byte {
	return appendPacket(packets, packetSubscribe, 2, append(appendText([]byte{0, 1, 0}, topic), 0))
}

// progressID is the packet id of progress messages, past those of results.
const progressID = 65535

// appendProgress appends the message that makes p the stream's progress, and awaits its answer.
func (s *Sink) appendProgress(packets []byte, p *progress) []byte {
	s.conn.pending[progressID] = packetPuback
	m := publish{topic: []byte(s.progressTopic), id: progressID, qos: 1, retain: true, payload: p.encode(s.opening.Stream)}
	return m.append(packets)
}

// write makes p the stream's progress: it is at the broker when this returns nil.
func (s *Sink) write(ctx context.Context, p progress) error {
	refused := error(nil)
	err := s.conn.flight(ctx, s.appendProgress(nil, &p), func(_ byte, a answer) {
		refused = s.progressRefused(a)
	})
	if err = errors.Join(err, refused); err == nil {
		s.state = p
	}
	return err
}

func (s *Sink) progressRefused(a answer) error {
	if a.reason < 0x80 {
		return nil
	}
	r := &refusal{a.reason, a.text}
	return fmt.Errorf("write progress to %s at %s: %w%s", s.progressTopic, s.config.Broker.URL, r, adviceOn(r, false))
}
