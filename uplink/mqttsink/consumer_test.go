package mqttsink

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

// arrival is one message as it came.
type arrival struct {
	Topic      string
	Stream     string          `json:"stream"`
	Generation uint64          `json:"generation"`
	Seq        uint64          `json:"seq"`
	Last       uint64          `json:"last"`
	Gap        *string         `json:"gap"`
	Data       json.RawMessage `json:"data"`
	raw        []byte
}

// consumer subscribes to everything with QoS 2 and a session of its own, and takes each message that the broker sends once: what comes twice was
// there twice.
type consumer struct {
	addr string
	end  chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	conn    net.Conn
	all     []arrival
	held    map[uint16]bool // ids between PUBLISH and PUBREL
	markers int
	sent    int
}

func consume(t testing.TB, addr string) *consumer {
	c := &consumer{addr: addr, end: make(chan struct{}), held: map[uint16]bool{}}
	c.wg.Go(func() {
		for first := true; ; first = false {
			select {
			case <-c.end:
				return
			default:
			}
			if err := c.session(first); err != nil {
				time.Sleep(5 * time.Millisecond)
			}
		}
	})
	t.Cleanup(func() {
		close(c.end)
		c.mu.Lock()
		if c.conn != nil {
			c.conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	c.drain(t)
	c.all = nil
	return c
}

// session reads one connection until it ends.
func (c *consumer) session(first bool) error {
	conn, err := net.DialTimeout("tcp", c.addr, rig.Patience)
	if err != nil {
		return err
	}
	defer conn.Close()
	body := append(appendText(nil, "MQTT"), 5, 0, 0, 0, 5, propSessionExpiry, 0, 1, 0, 0)
	_, err = conn.Write(appendPacket(nil, packetConnect, 0, appendText(body, "consumer")))
	if err != nil {
		return err
	}
	r, buf := bufio.NewReader(conn), []byte(nil)
	p, buf, err := readPacket(r, buf)
	if err != nil || p.kind != packetConnack {
		return fmt.Errorf("packet %d: %w", p.kind, err)
	}
	c.mu.Lock()
	if p.body[0]&1 == 0 {
		clear(c.held)
	}
	c.conn = conn
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.conn = nil
		c.mu.Unlock()
	}()
	if p.body[0]&1 == 0 {
		sub := append(appendText([]byte{0, 1, 0}, "#"), 2|1<<4) // retained ones only of the first time
		if _, err := conn.Write(appendPacket(nil, packetSubscribe, 2, sub)); err != nil {
			return err
		}
	}
	for {
		if p, buf, err = readPacket(r, buf); err != nil {
			return err
		}
		var answer []byte
		switch p.kind {
		case packetPublish:
			topic, rest, err := readText(p.body)
			if err != nil {
				return err
			}
			qos := p.flags >> 1 & 3
			id := uint16(0)
			if qos > 0 {
				id, rest = binary.BigEndian.Uint16(rest), rest[2:]
			}
			payload, err := readProperties(rest, func(byte, uint32, []byte) {})
			if err != nil {
				return err
			}
			c.take(string(topic), append([]byte(nil), payload...), qos, id)
			switch qos {
			case 1:
				answer = binary.BigEndian.AppendUint16([]byte{packetPuback << 4, 2}, id)
			case 2:
				answer = binary.BigEndian.AppendUint16([]byte{packetPubrec << 4, 2}, id)
			}
		case packetPubrel:
			id := binary.BigEndian.Uint16(p.body)
			c.mu.Lock()
			delete(c.held, id)
			c.mu.Unlock()
			answer = binary.BigEndian.AppendUint16([]byte{packetPubcomp << 4, 2}, id)
		}
		if len(answer) > 0 {
			if _, err := conn.Write(answer); err != nil {
				return err
			}
		}
	}
}

func (c *consumer) take(topic string, payload []byte, qos byte, id uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if qos == 2 {
		if c.held[id] {
			return
		}
		c.held[id] = true
	}
	if topic == "marker" {
		n := 0
		fmt.Sscan(string(payload), &n)
		c.markers = max(c.markers, n)
		return
	}
	if strings.HasSuffix(topic, "/progress") {
		return
	}
	a := arrival{Topic: topic, raw: payload}
	if err := json.Unmarshal(payload, &a); err != nil {
		a.Stream = err.Error()
	}
	c.all = append(c.all, a)
}

// drain waits until everything that was published before has come.
func (c *consumer) drain(t testing.TB) {
	t.Helper()
	c.mu.Lock()
	c.sent++
	n := c.sent
	c.mu.Unlock()
	m := publish{topic: []byte("marker"), id: uint16(60000 + n%5000), qos: 2, payload: fmt.Appendf(nil, "%d", n)}
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		c.mu.Lock()
		done := c.markers >= n
		if c.conn != nil && !done { // again is harmless: it counts up
			m.id++
			_, _ = c.conn.Write(appendPubrel(m.append(nil), m.id))
		}
		c.mu.Unlock()
		if done {
			return
		}
	}
	t.Fatal("the consumer hears nothing")
}

// arrivals gives what came of a stream, in order.
func (c *consumer) arrivals(t testing.TB, s uplink.Stream) (list []arrival) {
	t.Helper()
	c.drain(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.all {
		if a.Stream == s.String() {
			list = append(list, a)
		}
	}
	return list
}

// broker is mosquitto with a consumer.
type broker struct {
	*rig.Mosquitto
	consumer *consumer
	config   Config
	line     *rig.Proxy
}

// Line is the way to the broker.
func (b *broker) Line() uplinktest.Line { return b.line }

func startBroker(t testing.TB, qos int, extra string) *broker {
	t.Helper()
	m, err := rig.StartMosquitto(t.TempDir(), extra)
	if err != nil {
		t.Skipf("NOT TESTED against mosquitto: %v", err)
	}
	t.Cleanup(m.Kill)
	b := &broker{Mosquitto: m, consumer: consume(t, m.Addr), config: Default()}
	if b.line, err = rig.NewProxy(m.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.line.Close() })
	b.config.Broker.URL, b.config.Broker.ConnectTimeout = "mqtt://"+b.line.Addr(), rig.Patience
	b.config.Topic, b.config.QoS = "results/{$sink}", qos
	return b
}

func (b *broker) Connect(t testing.TB, board string) uplink.Endpoint {
	c := b.config
	c.Board = board
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	s.lingers = orderedWait
	return s
}

// orderedWait stands for retainedWait: mosquitto sends retained messages before it answers the PINGREQ behind, so that what is waited for with it does not come. A
// hundred streams begin in these tests.
const orderedWait = 10 * time.Millisecond

// Restart is SIGTERM: mosquitto saves its sessions.
func (b *broker) Restart(t testing.TB) {
	t.Helper()
	if err := b.Mosquitto.Restart(); err != nil {
		t.Fatal(err)
	}
}

// Held is what a consumer has that takes each sequence once.
func (b *broker) Held(t testing.TB, s uplink.Stream) []uplinktest.Held {
	t.Helper()
	held, _ := dedup(b.consumer.arrivals(t, s))
	return held
}

// dedup is what docs/sinks.md tells consumers to do. twice is how many came that were there.
func dedup(all []arrival) (held []uplinktest.Held, twice int) {
	type name struct{ generation, seq uint64 }
	seen := map[name]bool{}
	for _, a := range all {
		if seen[name{a.Generation, a.Seq}] {
			twice++
			continue
		}
		h := uplinktest.Held{Generation: a.Generation, Seq: a.Seq, Last: a.Seq, Payload: string(a.Data)}
		if a.Gap != nil {
			h.Gap, h.Last, h.Payload = true, a.Last, *a.Gap
		}
		for seq := h.Seq; seq <= h.Last; seq++ {
			seen[name{a.Generation, seq}] = true
		}
		held = append(held, h)
	}
	return held, twice
}
