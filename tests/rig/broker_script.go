package rig

import (
	"maps"
	"slices"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// script holds the faults that a test asked for. Broker.mu guards it.
type script struct {
	swallowConnack int
	swallowSuback  int
	silent         bool
	refuse         map[string]byte
	dropAfter      map[string]int
	onPacket       func(client string, p packets.ControlPacket) bool
}

// SwallowConnack makes the next n CONNECTs take effect without an answer; the connection is closed instead.
func (b *Broker) SwallowConnack(n int) { b.locked(func() { b.script.swallowConnack = n }) }

// SwallowSuback makes the next n SUBSCRIBEs take effect without an answer.
func (b *Broker) SwallowSuback(n int) { b.locked(func() { b.script.swallowSuback = n }) }

// Silent stops or starts the answers to PINGREQ.
func (b *Broker) Silent(silent bool) { b.locked(func() { b.script.silent = silent }) }

// Refuse answers code (0x80, or a lower QoS) to subscriptions to filter; 0xff ends it.
func (b *Broker) Refuse(filter string, code byte) {
	b.locked(func() {
		if code == 0xff {
			delete(b.script.refuse, filter)
		} else {
			b.script.refuse[filter] = code
		}
	})
}

// DropAfter closes a connection of the client when its n-th packet, CONNACK included, is about to be sent. It holds for
// one connection: the present one when fewer were sent on it, else a later one.
func (b *Broker) DropAfter(client string, n int) {
	b.locked(func() { b.script.dropAfter[client] = n })
}

// OnPacket registers f, which sees every packet of a connected client; when it returns false the packet is ignored. f runs
// with the broker locked: it must not call the broker.
func (b *Broker) OnPacket(f func(client string, p packets.ControlPacket) bool) {
	b.locked(func() { b.script.onPacket = f })
}

// Publish routes a message as if a client had sent it.
func (b *Broker) Publish(topic string, qos byte, retain bool, payload []byte) {
	b.locked(func() { b.route(brokerMessage{topic: topic, payload: payload, qos: qos}, retain) })
}

// SendRaw writes bytes to a connected client; false when it is not connected.
func (b *Broker) SendRaw(client string, bytes []byte) (sent bool) {
	b.locked(func() {
		if s := b.sessions[client]; s != nil && s.conn != nil {
			s.conn.sendRaw(bytes)
			sent = true
		}
	})
	return sent
}

// Drop closes a client's connection; false when it has none.
func (b *Broker) Drop(client string) (dropped bool) {
	b.locked(func() {
		if s := b.sessions[client]; s != nil && s.conn != nil {
			s.conn.close()
			s.conn = nil
			dropped = true
		}
	})
	return dropped
}

// Restart drops all connections and keeps the sessions: SIGTERM with persistence.
func (b *Broker) Restart() { b.locked(b.dropAll) }

// Forget drops a client and its session.
func (b *Broker) Forget(client string) {
	b.locked(func() {
		if s := b.sessions[client]; s != nil {
			if s.conn != nil {
				s.conn.close()
			}
			delete(b.sessions, client)
		}
	})
}

// BrokerSnapshot is what a broker had on disk at some time.
type BrokerSnapshot struct {
	sessions map[string]*brokerSession
	retained map[string]brokerMessage
}

// Snapshot copies sessions and retained messages.
func (b *Broker) Snapshot() *BrokerSnapshot {
	snap := &BrokerSnapshot{sessions: make(map[string]*brokerSession)}
	b.locked(func() {
		snap.retained = maps.Clone(b.retained)
		for id, s := range b.sessions {
			if !s.clean {
				snap.sessions[id] = s.clone()
			}
		}
	})
	return snap
}

// Restore is kill -9 of a broker that comes back from an older snapshot. Delivered and Connects go on counting.
func (b *Broker) Restore(snap *BrokerSnapshot) {
	b.locked(func() {
		b.dropAll()
		sessions := make(map[string]*brokerSession, len(snap.sessions))
		for id, s := range snap.sessions {
			c := s.clone()
			if now := b.sessions[id]; now != nil {
				c.delivered, c.connects = now.delivered, now.connects
			}
			sessions[id] = c
		}
		b.sessions, b.retained = sessions, maps.Clone(snap.retained)
	})
}

func (s *brokerSession) clone() *brokerSession {
	return &brokerSession{
		id: s.id, subs: maps.Clone(s.subs), queue: slices.Clone(s.queue[s.head:]), flying: slices.Clone(s.flying),
		used: maps.Clone(s.used), lastID: s.lastID, incoming: maps.Clone(s.incoming), connects: s.connects,
		dropped: s.dropped, delivered: slices.Clone(s.delivered),
	}
}

func (b *Broker) dropAll() {
	for c := range b.conns {
		c.close()
		if c.session != nil && c.session.conn == c {
			c.session.conn = nil
		}
	}
}

// SessionInfo is what a broker knows of a client.
type SessionInfo struct {
	Known, Connected bool
	Filters          map[string]byte
	Queued, InFlight int
	Connects         int // since the session began
	Dropped          int
	Delivered        []string // payloads acknowledged for good, in order; only with KeepDelivered
}

// Session reads a client's session.
func (b *Broker) Session(client string) (i SessionInfo) {
	b.locked(func() {
		s := b.sessions[client]
		if s == nil {
			return
		}
		i = SessionInfo{
			Known: true, Connected: s.conn != nil, Filters: maps.Clone(s.subs), Queued: len(s.queue) - s.head,
			InFlight: len(s.flying), Connects: s.connects, Dropped: s.dropped, Delivered: slices.Clone(s.delivered),
		}
	})
	return i
}

// Accepted counts the messages taken from publishers.
func (b *Broker) Accepted() (n uint64) {
	b.locked(func() { n = b.accepted })
	return n
}

func (b *Broker) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
}
