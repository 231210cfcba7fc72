package mqtt

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/weirstream/weir/tests/rig"
)

func TestRefusedSubscription(t *testing.T) {
	for _, code := range []byte{0x80, 0} {
		b := newBroker(t, rig.BrokerConfig{})
		b.Refuse("secret/#", code)
		a := startAgent(t, newMemJournal(), testConfig("mqtt://"+b.Addr(), 1, "t/#", "secret/#"), faults{})
		eventually(t, "refusal is shown", func() bool { return a.session.Stats().State == "refused" })
		if s := a.session.Stats(); !strings.Contains(s.Err, "secret/#") {
			t.Errorf("problem is %q", s.Err)
		}
		publish(b, 1, "m1") // the other source goes on
		a.waitMessages(1)
		if n := a.session.Stats().Connects; n != 1 {
			t.Errorf("%d connects: a refusal is no reason to connect again", n)
		}
		b.Refuse("secret/#", 0xff)
		b.Drop(testClient)
		a.waitReady()
	}
}

func TestSubackLost(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	b.SwallowSuback(1)
	c := testConfig("mqtt://"+b.Addr(), 1)
	c.ConnectTimeout = 500 * time.Millisecond
	a := startAgent(t, newMemJournal(), c, faults{})
	a.waitReady()
	if n := a.session.Stats().Connects; n < 2 {
		t.Errorf("%d connects, want 2 or more", n)
	}
}

func TestSilentBroker(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	c := testConfig("mqtt://"+b.Addr(), 1)
	c.KeepAlive, c.PingTimeout = time.Second, 200*time.Millisecond
	a := startAgent(t, newMemJournal(), c, faults{})
	a.waitReady()
	b.Silent(true)
	eventually(t, "connected anew", func() bool { return a.session.Stats().Connects > 1 })
	b.Silent(false)
	a.waitReady()
}

func TestPasswordAndTLS(t *testing.T) {
	dir := t.TempDir()
	ca, err := rig.NewAuthority(dir, "ca")
	if err != nil {
		t.Fatal(err)
	}
	pair, err := ca.Sign("127.0.0.1", time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	passwordFile := filepath.Join(dir, "password")
	if err := os.WriteFile(passwordFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{*pair}})
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t, rig.BrokerConfig{Listener: l})
	c := testConfig("mqtts://"+b.Addr(), 2)
	c.CAFile, c.Username, c.PasswordFile = ca.File, "gw", passwordFile
	if p, err := Password(&c); p != "secret" || err != nil {
		t.Errorf("password %q, %v", p, err)
	}
	a := startAgent(t, newMemJournal(), c, faults{})
	a.waitReady()
	publish(b, 2, "m1")
	settled(t, b, testClient)
	a.waitMessages(1)

	c.CAFile = "" // the system's roots do not know it
	c.ClientID = "gw-2"
	stranger := startAgent(t, newMemJournal(), c, faults{})
	eventually(t, "refusal of the certificate", func() bool { return strings.Contains(stranger.session.Stats().Err, "certificate") })
}

// TestWebsocket puts a bridge from websocket frames to TCP before the broker.
func TestWebsocket(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{})
	upgrader := websocket.Upgrader{Subprotocols: []string{"mqtt"}}
	bridge := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer ws.Close()
		conn, err := net.Dial("tcp", b.Addr())
		if err != nil {
			return
		}
		var back sync.WaitGroup
		defer back.Wait()
		defer conn.Close()
		back.Go(func() { // ends with conn, which the other direction closes
			defer ws.Close()
			buf := make([]byte, 7) // frames cut packets anywhere
			for {
				n, err := conn.Read(buf)
				if err != nil || ws.WriteMessage(websocket.BinaryMessage, buf[:n]) != nil {
					return
				}
			}
		})
		for {
			_, data, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if _, err := conn.Write(data); err != nil {
				return
			}
		}
	}))
	defer bridge.Close()
	a := startAgent(t, newMemJournal(), testConfig("ws://"+strings.TrimPrefix(bridge.URL, "http://")+"/mqtt", 1), faults{})
	a.waitReady()
	publish(b, 1, "m1", strings.Repeat("x", 100_000))
	settled(t, b, testClient)
	a.waitMessages(2)
	a.stop()
}

// TestProxyResets breaks the line with RST again and again while messages flow from a real publisher.
func TestProxyResets(t *testing.T) {
	b := newBroker(t, rig.BrokerConfig{Window: 50})
	proxy, err := rig.NewProxy(b.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	for _, qos := range []byte{1, 2} {
		c := testConfig("mqtt://"+proxy.Addr(), qos, fmt.Sprintf("q%d/#", qos))
		c.ClientID = fmt.Sprint("gw-q", qos)
		a := startAgent(t, newMemJournal(), c, faults{})
		a.waitReady()
		p := rig.NewPublisher(rig.PublisherConfig{Addr: b.Addr(), ClientID: fmt.Sprint("pub", qos), QoS: qos, Window: 40})
		defer p.Close()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var want []string
		for i := range 2000 {
			want = append(want, fmt.Sprint("m", i))
			if err := p.Publish(ctx, fmt.Sprintf("q%d/1", qos), false, []byte(want[i])); err != nil {
				t.Fatal(err)
			}
			if i%200 == 100 {
				proxy.Reset()
			}
		}
		if err := p.Flush(ctx); err != nil {
			t.Fatal(err)
		}
		a.waitMessages(len(want))
		settled(t, b, c.ClientID)
		if wrong := verdict(want, payloadsOf(a.journal.all())); wrong != "" {
			t.Errorf("QoS %d: %s", qos, wrong)
		}
		a.stop()
	}
}
