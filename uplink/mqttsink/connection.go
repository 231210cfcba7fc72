package mqttsink

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"time"

	"github.com/weirstream/weir/pipeline/mqtt"
)

// connection is one connection to the broker. The sender's goroutine writes and reads: nothing comes but answers.
type connection struct {
	net     net.Conn
	reader  *bufio.Reader
	buf     []byte
	pending map[uint16]byte // packet id → kind of the answer that is awaited

	// What CONNACK said.
	present bool // the broker has the session
	limits  brokerLimits

	spoke time.Time // when something was written last

	lingers time.Duration // retainedWait
}

// errLost says that the connection is of no use any more; what was under way is not known.
var errLost = errors.New("connection to the broker lost")

// dial connects. clean ends the session that the broker has.
func (s *Sink) dial(ctx context.Context, clean bool) (*connection, error) {
	raw, err := mqtt.Dial(ctx, &s.config.Broker)
	if err != nil {
		return nil, err
	}
	c := &connection{net: raw, reader: bufio.NewReaderSize(raw, 4<<10), pending: map[uint16]byte{}, spoke: time.Now(), lingers: s.lingers}
	if err := c.greet(ctx, s, clean); err != nil {
		_ = raw.Close()
		return nil, fmt.Errorf("connect to %s: %w%s", s.config.Broker.URL, err, adviceOn(err, true))
	}
	return c, nil
}

// greet is CONNECT and CONNACK. Without keep alive: a dead line shows when an answer is missing, and a sink that has nothing to send
// has nothing to ask. Where the broker demands one, a connection that was silent for so long is made anew before it is used again.
func (c *connection) greet(ctx context.Context, s *Sink, clean bool) error {
	secret, err := mqtt.Password(&s.config.Broker)
	if err != nil {
		return err
	}
	flags := byte(0)
	if clean {
		flags |= 2
	}
	user := s.config.Broker.Username
	if user != "" {
		flags |= 0x80
	}
	if secret != "" {
		flags |= 0x40
	}
	body := append(appendText(nil, "MQTT"), 5, flags, 0, 0)
	props := binary.BigEndian.AppendUint32([]byte{propSessionExpiry}, uint32(min(s.expiry()/time.Second, math.MaxUint32-1)))
	props = binary.BigEndian.AppendUint32(append(props, propMaximumPacket), packetBytesMax)
	body = append(appendVarint(body, len(props)), props...)
	body = appendText(body, s.clientID)
	if user != "" {
		body = appendText(body, user)
	}
	if secret != "" {
		body = appendText(body, secret)
	}
	defer c.limit(ctx)()
	if _, err := c.net.Write(appendPacket(nil, packetConnect, 0, body)); err != nil {
		return err
	}
	p, err := c.read()
	if err != nil {
		return err
	}
	if p.kind != packetConnack || len(p.body) < 2 {
		return fmt.Errorf("%w: packet %d where CONNACK comes", errMalformed, p.kind)
	}
	return c.welcome(s, p.body)
}

// takes tells whether the broker takes packets of n bytes. The most that it may announce is above an int of 32 bits, and so is what it means to announce nothing.
func (c *connection) takes(n int) bool { return uint64(n) <= uint64(c.limits.packetMax) }

// expiry is how long the broker is asked to keep the session.
func (s *Sink) expiry() time.Duration {
	if s.config.QoS != 2 {
		return 0
	}
	return s.config.SessionExpiry
}

// welcome reads CONNACK.
func (c *connection) welcome(s *Sink, body []byte) error {
	c.present, c.limits = body[0]&1 != 0, limitsOf(s.expiry())
	why := ""
	if len(body) > 2 { // a broker of 3.1.1 that refuses has none
		_, err := readProperties(body[2:], func(id byte, number uint32, text []byte) {
			if c.limits.take(id, number); id == propReasonString {
				why = string(text)
			}
		})
		if err != nil {
			return err
		}
	}
	if body[1] == 0 {
		s.announced = c.limits.text(s.expiry())
	}
	switch {
	case body[1] != 0:
		return &refusal{body[1], why}
	case c.limits.qosMax < s.config.QoS:
		return fmt.Errorf("the broker takes QoS %d at most, the sink is set to %d", c.limits.qosMax, s.config.QoS)
	case !c.limits.retain:
		return errors.New("the broker keeps no retained messages, which the sink's progress is")
	case s.config.QoS == 2 && c.limits.receiveMax < 2:
		return fmt.Errorf("the broker's receive maximum is %d, QoS 2 needs 2", c.limits.receiveMax)
	}
	return nil
}

// stale says whether the connection was silent for as long as the broker bears: it may be gone, and the next thing said on it lost.
func (c *connection) stale() bool {
	return c.limits.keepAlive > 0 && time.Since(c.spoke) >= c.limits.keepAlive
}

// limit makes ctx end reads and writes, until the function that it gives is called.
func (c *connection) limit(ctx context.Context) (end func()) {
	deadline, _ := ctx.Deadline() // zero: none
	_ = c.net.SetDeadline(deadline)
	stop := context.AfterFunc(ctx, func() { _ = c.net.SetDeadline(time.Unix(1, 0)) })
	return func() { stop() }
}

func (c *connection) read() (p packet, err error) {
	p, c.buf, err = readPacket(c.reader, c.buf)
	if err == nil && p.kind == packetDisconnect {
		r := &refusal{}
		if len(p.body) > 0 {
			r.reason = p.body[0]
		}
		if len(p.body) > 1 {
			_, _ = readProperties(p.body[1:], func(id byte, _ uint32, text []byte) {
				if id == propReasonString {
					r.text = string(text)
				}
			})
		}
		return p, fmt.Errorf("the broker disconnected: %w", r)
	}
	return p, err
}

// flight writes packets and reads until everything in pending is answered; each answer goes to on. An error is errLost.
func (c *connection) flight(ctx context.Context, packets []byte, on func(kind byte, a answer)) error {
	defer c.limit(ctx)()
	err := func() error {
		c.spoke = time.Now()
		_, writeErr := c.net.Write(packets)
		for len(c.pending) > 0 {
			p, err := c.read() // behind a failed write too: it may say why the broker hung up
			if err != nil {
				if writeErr != nil && !errors.As(err, new(*refusal)) {
					return writeErr
				}
				return err
			}
			if p.kind == packetPublish { // of a subscription that has just ended
				continue
			}
			a, err := readAnswer(p.body)
			if err != nil {
				return err
			}
			want, ok := c.pending[a.id]
			if !ok || p.kind != want {
				return fmt.Errorf("%w: packet %d with id %d answers nothing", errMalformed, p.kind, a.id)
			}
			delete(c.pending, a.id)
			on(p.kind, a)
		}
		return writeErr
	}()
	if err != nil {
		clear(c.pending)
		return fmt.Errorf("%w: %w", errLost, err)
	}
	return nil
}

// await reads until packets of these kinds, in any order, have come. Messages that come meanwhile go to take.
func (c *connection) await(take func(topic, payload []byte) error, kinds ...byte) error {
	for len(kinds) > 0 {
		p, err := c.read()
		if err != nil {
			return err
		}
		if p.kind == packetPublish {
			topic, payload, err := readPublish(p)
			if err == nil && take != nil {
				err = take(topic, payload)
			}
			if err != nil {
				return err
			}
			continue
		}
		i := bytes.IndexByte(kinds, p.kind)
		if i < 0 {
			return fmt.Errorf("%w: packet %d", errMalformed, p.kind)
		}
		if n := len(p.body); p.kind == packetSuback && (n < 4 || p.body[n-1] >= 0x80) {
			if n < 4 {
				return errMalformed
			}
			return &refusal{reason: p.body[n-1]}
		}
		kinds = slices.Delete(kinds, i, i+1)
	}
	return nil
}

// linger waits a moment for something to read.
func (c *connection) linger(ctx context.Context) error {
	_ = c.net.SetReadDeadline(time.Now().Add(c.lingers))
	_, err := c.reader.Peek(1)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	deadline, _ := ctx.Deadline()
	return c.net.SetReadDeadline(deadline)
}

// close says good-bye; the broker keeps the session.
func (c *connection) close() {
	_ = c.net.SetDeadline(time.Now().Add(time.Second))
	_, _ = c.net.Write([]byte{packetDisconnect << 4, 0})
	_ = c.net.Close()
}
