package crash

import (
	"bufio"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// publisher sends messages with a window of unacknowledged ones, at a rate. It is paused (all acknowledged) while the broker restarts: what a
// publisher re-sends on its own is a new message to the broker and would be none of the agent's doing.
type publisher struct {
	addr   string
	qos    byte
	window int

	conn net.Conn
	w    *bufio.Writer
	next uint16

	mu      sync.Mutex
	free    sync.Cond
	waiting map[uint16]bool
	err     error
	Acked   int
}

func newPublisher(addr string, qos byte, window int) *publisher {
	p := &publisher{addr: addr, qos: qos, window: window}
	p.free.L = &p.mu
	return p
}

// connect opens a clean session.
func (p *publisher) connect() error {
	conn, err := net.DialTimeout("tcp", p.addr, 5*time.Second)
	if err != nil {
		return fmt.Errorf("publisher: %w", err)
	}
	p.conn, p.w = conn, bufio.NewWriterSize(conn, 64<<10)
	c := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	c.ProtocolName, c.ProtocolVersion, c.CleanSession, c.ClientIdentifier, c.Keepalive = "MQTT", 4, true, "crash-publisher", 0
	if err := c.Write(conn); err != nil {
		return err
	}
	ack, err := packets.ReadPacket(conn)
	if err != nil {
		return fmt.Errorf("publisher: connack: %w", err)
	}
	if a, ok := ack.(*packets.ConnackPacket); !ok || a.ReturnCode != 0 {
		return fmt.Errorf("publisher: refused: %v", ack)
	}
	p.mu.Lock()
	p.waiting, p.err = map[uint16]bool{}, nil
	p.mu.Unlock()
	go p.read(conn) // ends with the connection
	return nil
}

func (p *publisher) read(conn net.Conn) {
	r := bufio.NewReader(conn)
	for {
		packet, err := packets.ReadPacket(r)
		p.mu.Lock()
		switch a := packet.(type) {
		case *packets.PubackPacket:
			p.done(a.MessageID)
		case *packets.PubcompPacket:
			p.done(a.MessageID)
		case *packets.PubrecPacket:
			rel := packets.NewControlPacket(packets.Pubrel).(*packets.PubrelPacket)
			rel.MessageID = a.MessageID
			if werr := rel.Write(p.w); werr == nil {
				p.w.Flush()
			}
		}
		if err != nil {
			p.err = err
			p.free.Broadcast()
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
	}
}

func (p *publisher) done(id uint16) {
	if p.waiting[id] {
		delete(p.waiting, id)
		p.Acked++
		p.free.Broadcast()
	}
}

// publish sends one message; it waits while the window is full.
func (p *publisher) publish(topic string, payload []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && len(p.waiting) >= p.window {
		p.w.Flush()
		p.free.Wait()
	}
	if p.err != nil {
		return fmt.Errorf("publisher: %w", p.err)
	}
	p.next++
	if p.next == 0 {
		p.next = 1
	}
	p.waiting[p.next] = true
	m := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	m.TopicName, m.Payload, m.Qos, m.MessageID = topic, payload, p.qos, p.next
	return m.Write(p.w)
}

// flush sends what is buffered.
func (p *publisher) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.w.Flush()
}

// settle waits until everything is acknowledged and closes the connection.
func (p *publisher) settle() error {
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.err == nil && len(p.waiting) > 0 {
		p.free.Wait()
	}
	if p.err != nil {
		return fmt.Errorf("publisher: %w", p.err)
	}
	d := packets.NewControlPacket(packets.Disconnect)
	d.Write(p.conn)
	p.conn.Close()
	return nil
}
