package nats

import (
	"errors"
	"fmt"
	"testing"

	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/uplinktest"
)

var one = uplink.Incarnation{Major: 1}

const testStream = "RESULTS"

// server is nats-server, reached through a proxy.
type server struct {
	*rig.NATS
	line   *rig.Proxy
	config Config
}

// startServer starts a server with one stream; more is added to the stream's settings.
func startServer(t testing.TB, more map[string]any) *server {
	t.Helper()
	far, err := rig.StartNATS(t.TempDir())
	if errors.Is(err, rig.ErrNoTool) {
		t.Skipf("NOT TESTED against nats-server: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	n := &server{NATS: far, config: Default()}
	t.Cleanup(func() { n.Kill() })
	if n.line, err = rig.NewProxy(n.Addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.line.Close() })
	n.config.URL, n.config.Stream, n.config.User, n.config.PasswordFile = "nats://"+n.line.Addr(), testStream, rig.NATSUser, n.PasswordFile
	n.makeStream(t, testStream, "weir.>", more)
	return n
}

// Line is the way to the server.
func (n *server) Line() uplinktest.Line { return n.line }

// Restart is kill -9.
func (n *server) Restart(t testing.TB) {
	t.Helper()
	if err := n.restart(); err != nil {
		t.Fatal(err)
	}
}

func (n *server) restart() error {
	n.Kill()
	return n.Start()
}

func (n *server) makeStream(t testing.TB, name, subjects string, more map[string]any) {
	t.Helper()
	if err := n.MakeStream(name, subjects, more); err != nil {
		t.Fatal(err)
	}
}

func (n *server) changeStream(t testing.TB, name, subjects string, more map[string]any) {
	t.Helper()
	if err := n.ChangeStream(name, subjects, more); err != nil {
		t.Fatal(err)
	}
}

func (n *server) Connect(t testing.TB, board string) uplink.Endpoint {
	c := n.config
	c.Board = board
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Held reads every message of the subject in the stream's own order.
func (n *server) Held(t testing.TB, s uplink.Stream) (held []uplinktest.Held) {
	t.Helper()
	subject := n.config.Subject + "." + escape(s.Gateway) + "." + escape(s.Pipeline) + "." + escape(s.Sink)
	all, err := n.Messages(testStream, subject)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		st, err := readState(m.Header, m.Seq)
		if err != nil {
			t.Fatal(err)
		}
		one := uplinktest.Held{Generation: st.Generation, Seq: st.Seq, Last: st.Seq, Payload: string(m.Data)}
		switch m.Header.Get(headerKind) {
		case kindOpen:
			continue
		case kindGap:
			one.Gap = true
			if _, err := fmt.Sscan(m.Header.Get(headerSeq), &one.Seq); err != nil {
				t.Fatal(err)
			}
		}
		held = append(held, one)
	}
	return held
}
