package mqtt

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline/topic"
)

// Publish sends a message of weir's own at QoS 0, without RETAIN: at most once, since nothing acknowledges it. It may be called from any
// goroutine; it waits for the socket no longer than the write timeout. ErrNotReady: the session has no connection on which it is ready, and nothing was
// sent.
func (s *Session) Publish(name string, payload []byte) error {
	if len(name) == 0 || len(name) > topic.BytesMax {
		return fmt.Errorf("publish: a topic of %d bytes: %w", len(name), ErrConfig)
	}
	t := s.current.Load()
	if t == nil || t.stopping.Load() || s.phase() != phaseReady { // behind a DISCONNECT nothing may be sent
		return fmt.Errorf("publish to %s: %w", name, ErrNotReady)
	}
	if _, err := t.send(publishPacket(name, payload)); err != nil {
		return fmt.Errorf("publish to %s: %w", name, err)
	}
	return nil
}

// publishPacket makes a PUBLISH at QoS 0: one write is one packet, as the tap demands.
func publishPacket(name string, payload []byte) []byte {
	n := 2 + len(name) + len(payload)
	b := make([]byte, 0, headerBytesMax+n)
	b = append(b, packetPublish<<4)
	for rest := n; ; {
		d := byte(rest & 0x7f)
		if rest >>= 7; rest == 0 {
			b = append(b, d)
			break
		}
		b = append(b, d|0x80)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
	b = append(b, name...)
	return append(b, payload...)
}
