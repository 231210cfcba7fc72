package mqtt

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
)

func TestPublishPacketIsReadByAnotherCodec(t *testing.T) {
	for _, size := range []int{0, 1, 100, 127, 128, 16383, 70000} {
		payload := bytes.Repeat([]byte{7}, size)
		p, err := packets.ReadPacket(bytes.NewReader(publishPacket("spBv1.0/G/NCMD/E", payload)))
		if err != nil {
			t.Fatal(err)
		}
		m, is := p.(*packets.PublishPacket)
		if !is || m.TopicName != "spBv1.0/G/NCMD/E" || m.Qos != 0 || m.Dup || m.Retain || !bytes.Equal(m.Payload, payload) {
			t.Fatalf("%d bytes: %v", size, p)
		}
	}
}

func TestPublishWithoutAConnectionIsRefused(t *testing.T) {
	s := &Session{log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if err := s.Publish("a", nil); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
	if err := s.Publish("", nil); !errors.Is(err, ErrConfig) {
		t.Error(err)
	}
}
