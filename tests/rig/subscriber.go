package rig

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// Heard is one message that a Subscriber took.
type Heard struct {
	Topic   string
	Payload []byte
}

// Subscriber takes every message of a broker at QoS 2 over a kept session, each that the broker sends once: what it has twice, the broker was given
// twice. It connects again until Close.
//
// mu guards all state. loop is its only goroutine.
type Subscriber struct {
	addr   string
	wg     sync.WaitGroup
	ctx    context.Context // ends with Close; a Subscriber is a goroutine's handle, not a call
	cancel context.CancelFunc

	mu         sync.Mutex
	subscribed bool
	open       map[uint16]bool // ids between PUBLISH and PUBREL
	all        []Heard
}

// subscriberMarker is the topic of what Drain sends.
const subscriberMarker = "rig/marker"

// NewSubscriber subscribes to everything but retained messages of before, and returns when the broker has taken that.
func NewSubscriber(addr string) (*Subscriber, error) {
	s := &Subscriber{addr: addr, open: map[uint16]bool{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Go(s.loop)
	for deadline := time.Now().Add(Patience); ; time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		done := s.subscribed
		s.mu.Unlock()
		if done {
			return s, nil
		}
		if time.Now().After(deadline) {
			s.Close()
			return nil, fmt.Errorf("subscribe at %s: not in %s", addr, Patience)
		}
	}
}

// Close ends it.
func (s *Subscriber) Close() {
	s.cancel()
	s.wg.Wait()
}

func (s *Subscriber) loop() {
	for s.ctx.Err() == nil {
		_ = s.connection() // its session goes on with the next one
		select {
		case <-time.After(20 * time.Millisecond):
		case <-s.ctx.Done():
		}
	}
}

func (s *Subscriber) connection() error {
	conn, err := (&net.Dialer{Timeout: Patience}).DialContext(s.ctx, "tcp", s.addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(s.ctx, func() { conn.Close() })()
	connect := packets.NewControlPacket(packets.Connect).(*packets.ConnectPacket)
	connect.ProtocolName, connect.ProtocolVersion, connect.ClientIdentifier = "MQTT", 4, "rig-subscriber"
	if err := connect.Write(conn); err != nil {
		return err
	}
	r := bufio.NewReader(conn)
	first, err := packets.ReadPacket(r)
	if err != nil {
		return err
	}
	ack, ok := first.(*packets.ConnackPacket)
	if !ok || ack.ReturnCode != 0 {
		return fmt.Errorf("connect subscriber: broker answered %v", first)
	}
	if !ack.SessionPresent {
		s.mu.Lock()
		clear(s.open)
		s.mu.Unlock()
		sub := packets.NewControlPacket(packets.Subscribe).(*packets.SubscribePacket)
		sub.MessageID, sub.Topics, sub.Qoss = 1, []string{"#"}, []byte{2}
		if err := sub.Write(conn); err != nil {
			return err
		}
	}
	return eachPacket(r, func(packet packets.ControlPacket) error { return s.take(conn, packet) })
}

func (s *Subscriber) take(conn net.Conn, packet packets.ControlPacket) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch p := packet.(type) {
	case *packets.SubackPacket:
		s.subscribed = true
	case *packets.PublishPacket:
		if p.Qos < 2 || !s.open[p.MessageID] {
			s.all = append(s.all, Heard{p.TopicName, p.Payload})
		}
		switch p.Qos {
		case 1:
			a := packets.NewControlPacket(packets.Puback).(*packets.PubackPacket)
			a.MessageID = p.MessageID
			return a.Write(conn)
		case 2:
			s.open[p.MessageID] = true
			a := packets.NewControlPacket(packets.Pubrec).(*packets.PubrecPacket)
			a.MessageID = p.MessageID
			return a.Write(conn)
		}
	case *packets.PubrelPacket:
		delete(s.open, p.MessageID)
		a := packets.NewControlPacket(packets.Pubcomp).(*packets.PubcompPacket)
		a.MessageID = p.MessageID
		return a.Write(conn)
	}
	return nil
}

// Drain waits until everything has come that the broker took before, and gives it all in order.
func (s *Subscriber) Drain() ([]Heard, error) {
	mark := fmt.Sprint(time.Now().UnixNano())
	p := NewPublisher(PublisherConfig{Addr: s.addr, ClientID: "rig-marker", QoS: 2})
	defer p.Close()
	if err := p.Publish(s.ctx, subscriberMarker, false, []byte(mark)); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		s.mu.Lock()
		all := slices.Clone(s.all)
		s.mu.Unlock()
		if n := len(all); slices.ContainsFunc(all, func(h Heard) bool { return h.Topic == subscriberMarker && string(h.Payload) == mark }) {
			return slices.DeleteFunc(all[:n:n], func(h Heard) bool { return h.Topic == subscriberMarker }), nil
		}
	}
	return nil, fmt.Errorf("the subscriber does not hear the marker in %s", Patience)
}
