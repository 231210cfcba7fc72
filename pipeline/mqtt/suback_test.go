package mqtt

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

// answersTooMuch is a broker whose SUBACK has a code more than there are filters.
func answersTooMuch(t *testing.T) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go answerTooMuch(conn)
		}
	}()
	return l.Addr().String()
}

func answerTooMuch(conn net.Conn) {
	defer conn.Close()
	for {
		p, err := packets.ReadPacket(conn)
		if err != nil {
			return
		}
		switch p := p.(type) {
		case *packets.ConnectPacket:
			_, err = conn.Write([]byte{packetConnack << 4, 2, 0, 0})
		case *packets.PingreqPacket:
			_, err = conn.Write([]byte{packetPingresp << 4, 0})
		case *packets.SubscribePacket:
			answer := packets.NewControlPacket(packets.Suback).(*packets.SubackPacket)
			answer.MessageID, answer.ReturnCodes = p.MessageID, append(p.Qoss, 1)
			err = answer.Write(conn)
		}
		if err != nil {
			return
		}
	}
}

// TestSubackOfTooManyCodes: a broker that answers more than it was asked loses the connection; without the check paho panics.
func TestSubackOfTooManyCodes(t *testing.T) {
	c := testConfig("mqtt://"+answersTooMuch(t), 1, "a/#", "b/+")
	a := startAgent(t, newMemJournal(), c, faults{})
	eventually(t, "two refusals", func() bool { return a.session.counters.protocolErrors.Load() >= 2 })
	if a.session.phase() == phaseReady {
		t.Error("the session is ready")
	}
}

// TestSubackOfTooManyCodesToTheCountOfDrops is the same of the connection that reads the broker's count.
func TestSubackOfTooManyCodesToTheCountOfDrops(t *testing.T) {
	c := testConfig("mqtt://"+answersTooMuch(t), 1)
	c.DroppedTopic = droppedTopic
	s, err := NewSession(c, newMemJournal(), slog.New(slog.NewTextHandler(testLog(t), nil)), Hooks{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.readDrops(t.Context()); err == nil {
		t.Error("no error")
	}
}

// TestSubackGuardInParts: wherever the bytes are cut.
func TestSubackGuardInParts(t *testing.T) {
	good := append(encodePublish("a/1", 0, 0, false, false, make([]byte, 300)), packetSuback<<4, 3, 0, 1, 0, packetPingresp<<4, 0)
	bad := append(append([]byte(nil), good...), packetSuback<<4, 4, 0, 1, 0, 0)
	for cut := range bad {
		g := &subackGuard{asked: 1}
		err := errors.Join(g.scan(bad[:cut]), g.scan(bad[cut:]))
		if !errors.Is(err, ErrProtocol) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
	near, far := net.Pipe()
	go func() { far.Write(good); far.Close() }()
	if b, err := io.ReadAll(&subackGuard{Conn: near, asked: 1}); err != nil || string(b) != string(good) {
		t.Errorf("%d bytes of %d, %v", len(b), len(good), err)
	}
}
