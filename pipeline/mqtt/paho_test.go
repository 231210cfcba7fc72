package mqtt

import (
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	paho "github.com/eclipse/paho.mqtt.golang"

	"github.com/weirstream/weir/tests/rig"
)

// recorder keeps each Write as it came.
type recorder struct {
	net.Conn
	mu     sync.Mutex
	writes [][]byte
}

func (r *recorder) Write(b []byte) (int, error) {
	r.mu.Lock()
	r.writes = append(r.writes, append([]byte(nil), b...))
	r.mu.Unlock()
	return r.Conn.Write(b)
}

// TestPahoWritesWholePackets pins what tap.Write relies on: it looks at the first byte of each Write.
func TestPahoWritesWholePackets(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	r := new(recorder)
	o := paho.NewClientOptions().AddBroker("tcp://" + b.Addr()).SetClientID("pin").SetCleanSession(false).SetProtocolVersion(4).
		SetKeepAlive(time.Second).
		SetCustomOpenConnectionFn(func(*url.URL, paho.ClientOptions) (net.Conn, error) {
			conn, err := net.Dial("tcp", b.Addr())
			r.Conn = conn
			return r, err
		})
	c := paho.NewClient(o)
	for _, token := range []func() paho.Token{
		c.Connect,
		func() paho.Token { return c.SubscribeMultiple(map[string]byte{"a/#": 1, "b/+": 2}, nil) },
		func() paho.Token { return c.Unsubscribe("a/#", "b/+") },
	} {
		if tk := token(); !tk.WaitTimeout(patience) || tk.Error() != nil {
			t.Fatal(tk.Error())
		}
	}
	seen := func() map[byte]int {
		r.mu.Lock()
		defer r.mu.Unlock()
		kinds := make(map[byte]int)
		for _, w := range r.writes {
			h, ok, err := parseHeader(w)
			if err != nil || !ok || h.size+h.remaining != len(w) {
				t.Fatalf("a Write of %d bytes is not one whole packet: % x", len(w), w)
			}
			kinds[h.first>>4]++
		}
		return kinds
	}
	eventually(t, "PINGREQ", func() bool { return seen()[packetPingreq] > 0 })
	c.Disconnect(250)
	for _, kind := range []byte{packetConnect, 8, 10, packetPingreq, packetDisconnect} {
		if seen()[kind] == 0 {
			t.Errorf("packet type %d was not written", kind)
		}
	}
}
