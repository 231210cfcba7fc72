package rig

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// PublisherConfig sets up a Publisher.
type PublisherConfig struct {
	Addr     string
	ClientID string
	QoS      byte
	// Window is the most messages in flight, default 100. At QoS 2 keep it at or below the broker's max_inflight_messages:
	// mosquitto loses what is over.
	Window int
}

// Publisher sends messages at QoS 0, 1 or 2 with a window, in order, over a kept session. It connects again and re-sends
// what was not answered: at QoS 2 each message reaches the broker once, at QoS 1 at least once; Flush before a broker is
// restarted keeps QoS 1 exact as well.
//
// mu guards all state. loop is its only goroutine beside the reader of the present connection.
type Publisher struct {
	config PublisherConfig
	wg     sync.WaitGroup
	ctx    context.Context // ends with Close; a Publisher is a goroutine's handle, not a call
	cancel context.CancelFunc

	mu     sync.Mutex
	change sync.Cond
	conn   net.Conn
	flying []outgoing
	lastID uint16
	acked  uint64
	resent uint64
}

// outgoing is a message in flight to the broker.
type outgoing struct {
	packet   *packets.PublishPacket
	released bool // PUBREC came
}

// NewPublisher connects in the background and keeps trying.
func NewPublisher(config PublisherConfig) *Publisher {
	if config.Window == 0 {
		config.Window = 100
	}
	p := &Publisher{config: config}
	p.change.L = &p.mu
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(p.loop)
	return p
}

// loop connects and reads until Close.
func (p *Publisher) loop() {
	for p.ctx.Err() == nil {
		p.connection() // its error is of no interest: the next connection sends again
		p.mu.Lock()
		p.conn = nil
		p.mu.Unlock()
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.ctx.Done():
		}
	}
}

func (p *Publisher) connection() error {
	conn, err := (&net.Dialer{Timeout: Patience}).DialContext(p.ctx, "tcp", p.config.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(p.ctx, func() { conn.Close() })
	defer stop()
	connect := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	connect.ProtocolName, connect.ProtocolVersion = "MQTT", 4
	connect.ClientIdentifier, connect.CleanSession = p.config.ClientID, false
	if err := connect.Write(conn); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	first, err := packets.ReadPacket(r)
	if err != nil {
		return err
	}
	if ack, ok := first.(*packets.ConnackPacket); !ok || ack.ReturnCode != 0 {
		return fmt.Errorf("connect publisher: broker answered %v", first)
	}
	if err := p.resend(conn); err != nil {
		return err
	}
	return eachPacket(r, func(packet packets.ControlPacket) error { return p.answered(conn, packet) })
}

// eachPacket gives what comes to take, until the connection ends or take fails.
func eachPacket(r io.Reader, take func(packets.ControlPacket) error) error {
	for {
		packet, err := packets.ReadPacket(r)
		if err != nil {
			return err
		}
		if err := take(packet); err != nil {
			return err
		}
	}
}

// resend sends what is in flight again, in order, and opens the connection to Publish.
func (p *Publisher) resend(conn net.Conn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.flying {
		p.resent++
		if o.released {
			if err := sendPubrel(conn, o.packet.MessageID); err != nil {
				return err
			}
			continue
		}
		o.packet.Dup = true
		if err := o.packet.Write(conn); err != nil {
			return err
		}
	}
	p.conn = conn
	p.change.Broadcast()
	return nil
}

func sendPubrel(conn net.Conn, id uint16) error {
	rel := packets.NewControlPacket(packets.Pubrel).(*packets.PubrelPacket)
	rel.MessageID = id
	return rel.Write(conn)
}

// answered takes PUBACK, PUBREC and PUBCOMP.
func (p *Publisher) answered(conn net.Conn, packet packets.ControlPacket) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := packet.Details().MessageID
	for i := range p.flying {
		if p.flying[i].packet.MessageID != id {
			continue
		}
		if _, is := packet.(*packets.PubrecPacket); is {
			p.flying[i].released = true
			return sendPubrel(conn, id)
		}
		p.flying = append(p.flying[:i], p.flying[i+1:]...)
		p.acked++
		p.change.Broadcast()
		return nil
	}
	return nil
}

// ErrPublisherClosed: Publish or Flush was called on, or interrupted by, a closed publisher or an ended context.
var ErrPublisherClosed = errors.New("publisher is closed")

// Publish sends a message when the window has room; it returns when the message is on its way, not when it is answered.
func (p *Publisher) Publish(ctx context.Context, topic string, retain bool, payload []byte) error {
	err := p.wait(ctx, func() bool { return p.conn != nil && len(p.flying) < p.config.Window })
	if err != nil {
		return err
	}
	defer p.mu.Unlock()
	m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	m.TopicName, m.Payload, m.Qos, m.Retain = topic, payload, p.config.QoS, retain
	if p.config.QoS > 0 {
		if p.lastID++; p.lastID == 0 {
			p.lastID = 1
		}
		m.MessageID = p.lastID
		p.flying = append(p.flying, outgoing{packet: m})
	}
	if err := m.Write(p.conn); err != nil {
		p.conn.Close() // the next connection sends it again
		p.conn = nil
	}
	return nil
}

// Flush waits until everything published is answered.
func (p *Publisher) Flush(ctx context.Context) error {
	if err := p.wait(ctx, func() bool { return len(p.flying) == 0 }); err != nil {
		return err
	}
	p.mu.Unlock()
	return nil
}

// wait returns with mu held when ready holds.
func (p *Publisher) wait(ctx context.Context, ready func() bool) error {
	wake := func() { p.mu.Lock(); p.change.Broadcast(); p.mu.Unlock() }
	defer context.AfterFunc(ctx, wake)()
	p.mu.Lock()
	for !ready() {
		if ctx.Err() != nil || p.ctx.Err() != nil {
			p.mu.Unlock()
			return ErrPublisherClosed
		}
		p.change.Wait()
	}
	return nil
}

// Counts tells how many messages were answered and how many sent again.
func (p *Publisher) Counts() (acked, resent uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.acked, p.resent
}

// Close drops the connection without waiting for answers and waits for the goroutines.
func (p *Publisher) Close() {
	p.cancel()
	p.mu.Lock()
	p.change.Broadcast()
	p.mu.Unlock()
	p.wg.Wait()
}
