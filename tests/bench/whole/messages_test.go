package whole

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
)

// payloadBytes is the length of every payload.
const payloadBytes = 120

// appendPayload makes one reading: a JSON object of 120 bytes whose numbers vary as a sensor's do.
func appendPayload(dst []byte, random *rand.Rand, tsMs int64, n int) []byte {
	start := len(dst)
	dst = fmt.Appendf(dst, `{"ts":%d,"device":"dev-%03d","temperature":%d.%02d,"humidity":%d.%d,"status":"ok","seq":%d,"site":"`,
		tsMs, random.IntN(100), 15+random.IntN(20), random.IntN(100), 30+random.IntN(50), random.IntN(10), n)
	for len(dst)-start < payloadBytes-2 {
		dst = append(dst, 'a'+byte(len(dst)%7))
	}
	return append(dst, '"', '}')
}

// appendPublish makes a PUBLISH at QoS 1.
func appendPublish(dst []byte, topic string, id uint16, payload []byte) []byte {
	dst = append(dst, 0x32)
	dst = binary.AppendUvarint(dst, uint64(2+len(topic)+2+len(payload))) // the same coding as MQTT's
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(topic)))
	dst = append(dst, topic...)
	dst = binary.BigEndian.AppendUint16(dst, id)
	return append(dst, payload...)
}

func topicOf(device int) string { return fmt.Sprintf("site/a/dev/%03d/telemetry", device) }

// appendConnect makes a CONNECT of MQTT 3.1.1 with a persistent session.
func appendConnect(dst []byte, clientID string) []byte {
	dst = append(dst, 0x10, byte(12+len(clientID)), 0, 4, 'M', 'Q', 'T', 'T', 4, 0, 0, 0, 0, byte(len(clientID)))
	return append(dst, clientID...)
}

func appendSubscribe(dst []byte, filter string) []byte {
	dst = append(dst, 0x82, byte(5+len(filter)), 0, 1, 0, byte(len(filter)))
	return append(append(dst, filter...), 1)
}

// packet is one MQTT packet at the front of a buffer.
type packet struct {
	kind byte
	body []byte
	size int // 0: not whole yet
}

// next cuts a packet off b.
func next(b []byte) packet {
	if len(b) < 2 {
		return packet{}
	}
	n, w := binary.Uvarint(b[1:])
	if w <= 0 || uint64(len(b)-1-w) < n {
		return packet{}
	}
	size := 1 + w + int(n)
	return packet{kind: b[0], body: b[1+w : size], size: size}
}

// idOf is the packet id of a PUBLISH at QoS 1.
func idOf(body []byte) uint16 {
	return binary.BigEndian.Uint16(body[2+binary.BigEndian.Uint16(body):])
}
