package rig

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"sync"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// brokerConn is one connection to the broker. read and write are its goroutines; both end when it is closed.
type brokerConn struct {
	broker  *Broker
	conn    net.Conn
	session *brokerSession // nil before CONNECT; Broker.mu
	sends   int            // packets queued so far; Broker.mu

	mu   sync.Mutex
	wake sync.Cond
	out  bytes.Buffer
	gone bool
}

func newBrokerConn(b *Broker, c net.Conn) *brokerConn {
	conn := &brokerConn{broker: b, conn: c}
	conn.wake.L = &conn.mu
	return conn
}

// close ends the connection without waiting: what was not written is lost.
func (c *brokerConn) close() {
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.wake.Broadcast()
	c.conn.Close()
}

func (c *brokerConn) isGone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone
}

// write moves what was queued onto the socket.
func (c *brokerConn) write() {
	var chunk bytes.Buffer
	for {
		c.mu.Lock()
		for c.out.Len() == 0 && !c.gone {
			c.wake.Wait()
		}
		if c.gone {
			c.mu.Unlock()
			return
		}
		chunk, c.out = c.out, chunk
		c.mu.Unlock()
		if _, err := c.conn.Write(chunk.Bytes()); err != nil {
			c.close()
			return
		}
		chunk.Reset()
	}
}

// read takes packets until the connection ends.
func (c *brokerConn) read() {
	defer func() {
		c.close()
		c.broker.mu.Lock()
		c.broker.gone(c)
		c.broker.mu.Unlock()
	}()
	r := bufio.NewReaderSize(c.conn, 64<<10)
	for {
		p, err := packets.ReadPacket(r)
		if err != nil || !c.handle(p) {
			return
		}
	}
}

// handle answers one packet; false ends the connection.
func (c *brokerConn) handle(p packets.ControlPacket) bool {
	b := c.broker
	b.mu.Lock()
	defer b.mu.Unlock()
	if c.isGone() {
		return false // what a dropped client still sends is never read
	}
	if connect, ok := p.(*packets.ConnectPacket); ok {
		return c.session == nil && b.connect(c, connect)
	}
	if c.session == nil {
		return false
	}
	if b.script.onPacket != nil && !b.script.onPacket(c.session.id, p) {
		return true
	}
	switch p := p.(type) {
	case *packets.SubscribePacket:
		b.subscribe(c, p)
	case *packets.UnsubscribePacket:
		for _, filter := range p.Topics {
			delete(c.session.subs, filter)
		}
		ack := packets.NewControlPacket(packets.Unsuback).(*packets.UnsubackPacket)
		ack.MessageID = p.MessageID
		c.send(ack)
	case *packets.PublishPacket:
		c.published(p)
	case *packets.PubrelPacket:
		delete(c.session.incoming, p.MessageID)
		ack := packets.NewControlPacket(packets.Pubcomp).(*packets.PubcompPacket)
		ack.MessageID = p.MessageID
		c.send(ack)
	case *packets.PubackPacket:
		b.acknowledged(c, packets.Puback, p.MessageID)
	case *packets.PubrecPacket:
		b.acknowledged(c, packets.Pubrec, p.MessageID)
	case *packets.PubcompPacket:
		b.acknowledged(c, packets.Pubcomp, p.MessageID)
	case *packets.PingreqPacket:
		if !b.script.silent {
			c.send(packets.NewControlPacket(packets.Pingresp))
		}
	case *packets.DisconnectPacket:
		return false
	}
	return true
}

// published takes a client's own PUBLISH.
func (c *brokerConn) published(p *packets.PublishPacket) {
	m := brokerMessage{topic: p.TopicName, payload: p.Payload, qos: p.Qos}
	switch p.Qos {
	case 0:
		c.broker.route(m, p.Retain)
	case 1:
		c.broker.route(m, p.Retain)
		ack := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
		ack.MessageID = p.MessageID
		c.send(ack)
	case 2:
		if !c.session.incoming[p.MessageID] {
			c.session.incoming[p.MessageID] = true
			c.broker.route(m, p.Retain)
		}
		ack := packets.NewControlPacket(packets.Pubrec).(*packets.PubrecPacket)
		ack.MessageID = p.MessageID
		c.send(ack)
	}
}

// sendFlight sends PUBLISH or PUBREL.
func (c *brokerConn) sendFlight(f *flight, again bool) {
	if f.released {
		rel := packets.NewControlPacket(packets.Pubrel).(*packets.PubrelPacket)
		rel.MessageID = f.id
		c.send(rel)
		return
	}
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Payload, p.Qos, p.Retain = f.message.topic, f.message.payload, f.message.qos, f.message.retain
	p.MessageID, p.Dup = f.id, again
	c.send(p)
}

// send queues a packet. Broker.mu is held.
func (c *brokerConn) send(p packets.ControlPacket) {
	c.mu.Lock()
	if c.gone {
		c.mu.Unlock()
		return
	}
	p.Write(&c.out) // a bytes.Buffer takes everything
	c.mu.Unlock()
	c.wake.Signal()
	c.sends++
	if s := c.session; s != nil && c.broker.script.dropAfter[s.id] == c.sends {
		delete(c.broker.script.dropAfter, s.id)
		c.close()
	}
}

func (c *brokerConn) sendRaw(b []byte) {
	c.mu.Lock()
	c.out.Write(b)
	c.mu.Unlock()
	c.wake.Signal()
}

// topicMatches is the broker's own matching, written apart from the agent's so that the two check each other.
func topicMatches(filter, topic string) bool {
	if rest, ok := strings.CutPrefix(filter, "$share/"); ok {
		_, filter, _ = strings.Cut(rest, "/")
	}
	f, t := strings.Split(filter, "/"), strings.Split(topic, "/")
	if strings.HasPrefix(topic, "$") && (f[0] == "+" || f[0] == "#") {
		return false
	}
	for i, level := range f {
		switch {
		case level == "#":
			return true
		case i >= len(t) || level != "+" && level != t[i]:
			return false
		}
	}
	return len(f) == len(t)
}
