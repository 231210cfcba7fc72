//go:build !arm && !386

package powercut

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"net"
	"regexp"
	"strconv"
	"sync"

	"github.com/eclipse/paho.mqtt.golang/packets"

	"github.com/weirstream/weir/tests/rig"
)

// tap stands between the agent and mosquitto and notes which messages the agent has acknowledged: from then on the broker has forgotten them, and they must
// never be lost. One goroutine accepts, two serve each connection; close waits for all.
type tap struct {
	listener net.Listener
	target   string
	wg       sync.WaitGroup

	mu     sync.Mutex
	acked  map[int]bool
	conns  map[net.Conn]bool
	closed bool
}

// number of a message, in payloads that are broken as well.
var number = regexp.MustCompile(`"id":(\d+)`)

func newTap(target string) (*tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the tap: %w", err)
	}
	t := &tap{listener: l, target: target, acked: map[int]bool{}, conns: map[net.Conn]bool{}}
	t.wg.Go(t.accept)
	return t, nil
}

func (t *tap) addr() string { return t.listener.Addr().String() }

func (t *tap) accept() {
	for {
		agent, err := t.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.DialTimeout("tcp", t.target, rig.Patience)
		if err != nil {
			agent.Close()
			continue
		}
		if !t.hold(agent, broker) {
			return
		}
		c := &tapped{tap: t, flying: map[uint16]int{}}
		t.wg.Go(func() { c.copy(broker, agent, c.fromAgent); t.release(agent, broker) })
		t.wg.Go(func() { c.copy(agent, broker, c.fromBroker); t.release(agent, broker) })
	}
}

func (t *tap) hold(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		t.conns[c] = true
		if t.closed {
			c.Close()
		}
	}
	return !t.closed
}

func (t *tap) release(conns ...net.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		delete(t.conns, c)
		c.Close()
	}
}

// snapshot are the messages that are acknowledged by now.
func (t *tap) snapshot() map[int]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.acked)
}

func (t *tap) close() {
	t.listener.Close()
	t.mu.Lock()
	t.closed = true
	for c := range t.conns {
		c.Close()
	}
	t.mu.Unlock()
	t.wg.Wait()
}

// tapped is one connection of the agent.
type tapped struct {
	tap    *tap
	mu     sync.Mutex
	flying map[uint16]int // packet id to message
}

// copy passes packets on, each after it was looked at.
func (c *tapped) copy(to, from net.Conn, look func(packets.ControlPacket)) {
	r := bufio.NewReader(from)
	for {
		p, err := packets.ReadPacket(r)
		if err != nil {
			io.Copy(io.Discard, r) //nolint:errcheck // it is over
			return
		}
		look(p)
		if p.Write(to) != nil {
			return
		}
	}
}

func (c *tapped) fromBroker(p packets.ControlPacket) {
	m, ok := p.(*packets.PublishPacket)
	if !ok || m.Qos == 0 {
		return
	}
	if found := number.FindSubmatch(m.Payload); found != nil {
		n, _ := strconv.Atoi(string(found[1])) // digits
		c.mu.Lock()
		c.flying[m.MessageID] = n
		c.mu.Unlock()
	}
}

// fromAgent notes PUBACK, and PUBREC, behind which the broker has no payload any more.
func (c *tapped) fromAgent(p packets.ControlPacket) {
	switch p.(type) {
	case *packets.PubackPacket, *packets.PubrecPacket:
	default:
		return
	}
	id := p.Details().MessageID
	c.mu.Lock()
	n, known := c.flying[id]
	delete(c.flying, id)
	c.mu.Unlock()
	if !known {
		return
	}
	c.tap.mu.Lock()
	c.tap.acked[n] = true
	c.tap.mu.Unlock()
}
