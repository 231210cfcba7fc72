package rig

import (
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// IDScheme is how a broker gives out packet ids.
type IDScheme uint8

const (
	// SequentialIDs count up and skip what is in flight, as mosquitto does.
	SequentialIDs IDScheme = iota
	// LowestFreeIDs reuse the lowest id that is not in flight.
	LowestFreeIDs
)

// BrokerConfig sets up a Broker. The zero value is a broker on a free loopback port with sequential ids.
type BrokerConfig struct {
	Addr   string // default 127.0.0.1:0
	IDs    IDScheme
	Window int // messages in flight per client; default 1000
	// ResendWindow: so many messages in flight are re-sent at once on a reconnect, the others as acknowledgements make room
	// (mosquitto 2.0.11 with more in flight than its window); 0 = all.
	ResendWindow int
	MaxQueued    int // per offline client; 0 = no limit; what is over is dropped, as mosquitto does
	// Listener, when set, is used instead of Addr (TLS).
	Listener net.Listener
	// KeepDelivered records what each client acknowledged for good, for oracles.
	KeepDelivered bool
}

// Broker is a scripted MQTT 3.1.1 broker that keeps its sessions in memory. It follows the standard where it is not told
// otherwise: window, order, DUP and PUBREL on reconnect, retained messages, takeover of a client id. Its faults are
// scripted one by one (broker_script.go). It is also the fast, ideal broker of the demo.
//
// mu guards all state. One goroutine accepts, two serve each connection; Close waits for all of them.
type Broker struct {
	config   BrokerConfig
	listener net.Listener
	wg       sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	sessions map[string]*brokerSession
	retained map[string]brokerMessage
	conns    map[*brokerConn]struct{}
	script   script
	accepted uint64 // messages taken from publishers
}

// brokerMessage is an application message.
type brokerMessage struct {
	topic   string
	payload []byte
	qos     byte
	retain  bool // sent because of a SUBSCRIBE
}

// flight is a message in flight to a client.
type flight struct {
	id       uint16
	message  brokerMessage
	released bool // PUBREC came, PUBREL is out
}

// brokerSession is what a broker keeps of a client.
type brokerSession struct {
	id        string
	clean     bool
	subs      map[string]byte
	queue     []brokerMessage
	head      int
	flying    []flight
	resent    int             // of flying, how many were sent on this connection; less than all only with ResendWindow
	used      map[uint16]bool // ids in flight
	lastID    uint16
	incoming  map[uint16]bool // QoS 2 ids of the client's own messages, until PUBREL
	conn      *brokerConn
	connects  int
	dropped   int
	delivered []string // payloads
}

// NewBroker starts a broker.
func NewBroker(config BrokerConfig) (*Broker, error) {
	if config.Addr == "" {
		config.Addr = "127.0.0.1:0"
	}
	if config.Window == 0 {
		config.Window = 1000
	}
	listener := config.Listener
	if listener == nil {
		var err error
		if listener, err = net.Listen("tcp", config.Addr); err != nil {
			return nil, fmt.Errorf("listen for MQTT: %w", err)
		}
	}
	b := &Broker{
		config: config, listener: listener,
		sessions: make(map[string]*brokerSession), retained: make(map[string]brokerMessage), conns: make(map[*brokerConn]struct{}),
	}
	b.script.refuse = make(map[string]byte)
	b.script.dropAfter = make(map[string]int)
	b.wg.Go(b.accept)
	return b, nil
}

// Addr is host:port.
func (b *Broker) Addr() string { return b.listener.Addr().String() }

// Close drops every connection and waits for all goroutines.
func (b *Broker) Close() error {
	b.mu.Lock()
	b.closed = true
	b.dropAll()
	b.mu.Unlock()
	err := b.listener.Close()
	b.wg.Wait()
	return err
}

func (b *Broker) accept() {
	for {
		c, err := b.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // one connection failed, the listener lives
		}
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			c.Close()
			return
		}
		conn := newBrokerConn(b, c)
		b.conns[conn] = struct{}{}
		b.wg.Go(conn.read)
		b.wg.Go(conn.write)
		b.mu.Unlock()
	}
}

// connect takes a CONNECT; false ends the connection. mu is held.
func (b *Broker) connect(c *brokerConn, p *packets.ConnectPacket) (alive bool) {
	s := b.sessions[p.ClientIdentifier]
	present := s != nil && !p.CleanSession
	if s != nil && s.conn != nil {
		s.conn.close() // takeover
	}
	if !present {
		s = newBrokerSession(p.ClientIdentifier)
		b.sessions[s.id] = s
	}
	s.clean, s.conn, c.session = p.CleanSession, c, s
	s.connects++
	if b.script.swallowConnack > 0 {
		b.script.swallowConnack--
		return false
	}
	ack := packets.NewControlPacket(packets.Connack).(*packets.ConnackPacket)
	ack.SessionPresent = present
	c.send(ack)
	s.resent = 0
	b.resend(s)
	b.pump(s)
	return true
}

func newBrokerSession(id string) *brokerSession {
	return &brokerSession{id: id, subs: make(map[string]byte), used: make(map[uint16]bool), incoming: make(map[uint16]bool)}
}

// gone is called when a connection ended. mu is held.
func (b *Broker) gone(c *brokerConn) {
	delete(b.conns, c)
	s := c.session
	if s == nil || s.conn != nil && s.conn != c {
		return
	}
	s.conn = nil
	if s.clean && b.sessions[s.id] == s {
		delete(b.sessions, s.id)
	}
}

// subscribe takes a SUBSCRIBE. mu is held.
func (b *Broker) subscribe(c *brokerConn, p *packets.SubscribePacket) {
	ack := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
	ack.MessageID = p.MessageID
	for i, filter := range p.Topics {
		code := p.Qoss[i]
		if refused, ok := b.script.refuse[filter]; ok {
			code = refused
		}
		if code <= 2 {
			c.session.subs[filter] = code
		}
		ack.ReturnCodes = append(ack.ReturnCodes, code)
	}
	if b.script.swallowSuback > 0 {
		b.script.swallowSuback--
		return
	}
	c.send(ack)
	for i, filter := range p.Topics {
		for topic, m := range b.retained {
			if ack.ReturnCodes[i] <= 2 && topicMatches(filter, topic) {
				m.qos = min(m.qos, ack.ReturnCodes[i])
				m.retain = true
				b.enqueue(c.session, m)
			}
		}
	}
}

// route hands a message to every session that subscribes to its topic. mu is held.
func (b *Broker) route(m brokerMessage, retain bool) {
	b.accepted++
	if retain {
		if len(m.payload) == 0 {
			delete(b.retained, m.topic)
		} else {
			b.retained[m.topic] = m
		}
	}
	for _, s := range b.sessions {
		granted := -1
		for filter, qos := range s.subs {
			if topicMatches(filter, m.topic) {
				granted = max(granted, int(qos))
			}
		}
		if granted >= 0 {
			out := m
			out.qos = min(m.qos, byte(granted))
			b.enqueue(s, out)
		}
	}
}

func (b *Broker) enqueue(s *brokerSession, m brokerMessage) {
	switch {
	case s.conn == nil && m.qos == 0:
		return
	case s.conn == nil && b.config.MaxQueued > 0 && len(s.queue)-s.head >= b.config.MaxQueued:
		s.dropped++
		return
	}
	s.queue = append(s.queue, m)
	b.pump(s)
}

// resend sends again what was in flight before the connection: in order, PUBREL for what has its PUBREC. mu is held.
func (b *Broker) resend(s *brokerSession) {
	for s.conn != nil && s.resent < len(s.flying) && (b.config.ResendWindow == 0 || s.resent < b.config.ResendWindow) {
		s.conn.sendFlight(&s.flying[s.resent], true)
		s.resent++
	}
}

// pump sends while the window has room. mu is held.
func (b *Broker) pump(s *brokerSession) {
	for s.conn != nil && s.head < len(s.queue) {
		m := s.queue[s.head]
		if m.qos > 0 && (len(s.flying) >= b.config.Window || s.resent < len(s.flying)) {
			return
		}
		s.queue[s.head] = brokerMessage{}
		s.head++
		f := flight{message: m}
		if m.qos > 0 {
			f.id = b.nextID(s)
			s.used[f.id] = true
			s.flying = append(s.flying, f)
			s.resent = len(s.flying)
		}
		s.conn.sendFlight(&f, false)
	}
	if s.head == len(s.queue) {
		s.queue, s.head = s.queue[:0], 0
	}
}

func (b *Broker) nextID(s *brokerSession) uint16 {
	id := s.lastID
	if b.config.IDs == LowestFreeIDs {
		id = 0
	}
	for {
		if id++; id != 0 && !s.used[id] {
			s.lastID = id
			return id
		}
	}
}

// acknowledged takes PUBACK, PUBREC and PUBCOMP. mu is held.
func (b *Broker) acknowledged(c *brokerConn, kind byte, id uint16) {
	s := c.session
	for i := range s.flying {
		f := &s.flying[i]
		if f.id != id {
			continue
		}
		switch {
		case kind == packets.Pubrec && f.message.qos == 2:
			if !f.released && b.config.KeepDelivered {
				s.delivered = append(s.delivered, string(f.message.payload))
			}
			f.released = true
			f.message.payload = nil
			c.sendFlight(f, false)
		case kind == packets.Puback && f.message.qos == 1, kind == packets.Pubcomp && f.released:
			if kind == packets.Puback && b.config.KeepDelivered {
				s.delivered = append(s.delivered, string(f.message.payload))
			}
			delete(s.used, id)
			s.flying = append(s.flying[:i], s.flying[i+1:]...)
			if i < s.resent {
				s.resent--
			}
			b.resend(s)
			b.pump(s)
		}
		return
	}
	if kind == packets.Pubrec { // unknown: the client is to forget it
		c.sendFlight(&flight{id: id, released: true}, false)
	}
}
