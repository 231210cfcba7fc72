package mqtt

import (
	"encoding/binary"
	"fmt"
)

// Packet types of MQTT 3.1.1, the upper half of the first byte.
const (
	packetConnect    = 1
	packetConnack    = 2
	packetPublish    = 3
	packetPuback     = 4
	packetPubrec     = 5
	packetPubrel     = 6
	packetPubcomp    = 7
	packetSuback     = 9
	packetPingreq    = 12
	packetPingresp   = 13
	packetDisconnect = 14
)

// packetIDBytes is how long a packet id is.
const packetIDBytes = 2

// headerBytesMax is the longest fixed header: one byte and four of remaining length.
const headerBytesMax = 5

// controlBytesMax bounds the packets that go on to paho; it allocates their length on the broker's word.
const controlBytesMax = 64 << 10

// header is a parsed fixed header.
type header struct {
	first     byte
	size      int // bytes of the header itself
	remaining int // bytes that follow it
}

// parseHeader reads a fixed header from the front of b. ok is false when b is too short to tell.
func parseHeader(b []byte) (h header, ok bool, err error) {
	if len(b) < 2 {
		return h, false, nil
	}
	h.first = b[0]
	for i := 1; i < headerBytesMax; i++ {
		if i == len(b) {
			return h, false, nil
		}
		h.remaining |= int(b[i]&0x7f) << (7 * (i - 1))
		if b[i] < 0x80 {
			h.size = i + 1
			return h, true, nil
		}
	}
	return h, false, fmt.Errorf("read remaining length % x: %w", b[1:headerBytesMax], ErrProtocol)
}

// publishFlags are those of a PUBLISH's first byte.
type publishFlags struct {
	dup, retain bool
	qos         uint8
}

func parseFlags(first byte) (publishFlags, error) {
	f := publishFlags{dup: first&8 != 0, retain: first&1 != 0, qos: first >> 1 & 3}
	if f.qos == 3 {
		return f, fmt.Errorf("read PUBLISH flags %#x: %w", first, ErrProtocol)
	}
	return f, nil
}

// variableBytes is the length of a PUBLISH's topic and packet id, given the topic's length.
func variableBytes(topicBytes int, qos uint8) int {
	if qos == 0 {
		return 2 + topicBytes
	}
	return 2 + topicBytes + 2
}

// parsePublish splits the body of a PUBLISH. The slices alias body.
func parsePublish(f publishFlags, body []byte) (topic []byte, id uint16, payload []byte, err error) {
	if len(body) < 2 {
		return nil, 0, nil, fmt.Errorf("read PUBLISH of %d bytes: %w", len(body), ErrProtocol)
	}
	n := int(binary.BigEndian.Uint16(body))
	v := variableBytes(n, f.qos)
	if len(body) < v {
		return nil, 0, nil, fmt.Errorf("read PUBLISH of %d bytes with a topic of %d: %w", len(body), n, ErrProtocol)
	}
	if f.qos > 0 {
		if id = binary.BigEndian.Uint16(body[2+n:]); id == 0 {
			return nil, 0, nil, fmt.Errorf("read PUBLISH with packet id 0: %w", ErrProtocol)
		}
	}
	return body[2 : 2+n], id, body[v:], nil
}

// ack is the bytes of a PUBACK, PUBREC or PUBCOMP.
type ack [4]byte

func makeAck(packet byte, id uint16) ack {
	return ack{packet << 4, 2, byte(id >> 8), byte(id)}
}
