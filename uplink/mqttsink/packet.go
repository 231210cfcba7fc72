package mqttsink

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// The packets of MQTT 5 that a publisher needs. Source: OASIS MQTT Version 5.0, chapters 2 and 3. The library that the sources use speaks 3.1.1,
// which has no reason codes, no receive maximum and no limit of packets, and gives out packet ids by itself: here the id of a message
// is a function of its sequence.
const (
	packetConnect    = 1
	packetConnack    = 2
	packetPublish    = 3
	packetPuback     = 4
	packetPubrec     = 5
	packetPubrel     = 6
	packetPubcomp    = 7
	packetSubscribe  = 8
	packetSuback     = 9
	packetUnsub      = 10
	packetUnsuback   = 11
	packetPingreq    = 12
	packetPingresp   = 13
	packetDisconnect = 14
)

// Properties.
const (
	propSessionExpiry   = 0x11
	propServerKeepAlive = 0x13
	propReasonString    = 0x1F
	propReceiveMaximum  = 0x21
	propMaximumQoS      = 0x24
	propRetain          = 0x25
	propUser            = 0x26
	propMaximumPacket   = 0x27
)

var errMalformed = errors.New("malformed MQTT packet")

// packetBytesMax bounds what is read: acknowledgements, and one's own progress.
const packetBytesMax = 64 << 10

// packet is one that was read. body is valid until the next one.
type packet struct {
	kind  byte
	flags byte
	body  []byte
}

// readPacket reads one packet into buf.
func readPacket(r *bufio.Reader, buf []byte) (packet, []byte, error) {
	head, err := r.ReadByte()
	if err != nil {
		return packet{}, buf, err
	}
	n, shift := 0, 0
	for {
		b, err := r.ReadByte()
		if err != nil {
			return packet{}, buf, err
		}
		n |= int(b&0x7F) << shift
		if b < 0x80 {
			break
		}
		if shift += 7; shift > 21 {
			return packet{}, buf, errMalformed
		}
	}
	if n > packetBytesMax {
		return packet{}, buf, fmt.Errorf("%w: %d bytes, %d at most were announced", errMalformed, n, packetBytesMax)
	}
	if cap(buf) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	_, err = io.ReadFull(r, buf)
	return packet{head >> 4, head & 0xF, buf}, buf, err
}

func appendVarint(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// appendPacket puts the fixed header before a body.
func appendPacket(b []byte, kind, flags byte, body []byte) []byte {
	return append(appendVarint(append(b, kind<<4|flags), len(body)), body...)
}

// publish is a message to send.
type publish struct {
	topic      []byte
	id         uint16
	qos        int
	retain     bool
	dup        bool
	properties []byte
	payload    []byte
}

// size is that of the whole packet.
func (p *publish) size() int {
	n := p.bodySize()
	return 1 + len(appendVarint(make([]byte, 0, 4), n)) + n
}

func (p *publish) bodySize() int {
	n := 2 + len(p.topic) + len(appendVarint(make([]byte, 0, 4), len(p.properties))) + len(p.properties) + len(p.payload)
	if p.qos > 0 {
		n += 2
	}
	return n
}

func (p *publish) append(b []byte) []byte {
	head := byte(packetPublish<<4 | p.qos<<1)
	if p.retain {
		head |= 1
	}
	if p.dup {
		head |= 8
	}
	b = appendVarint(append(b, head), p.bodySize())
	b = appendText(b, p.topic)
	if p.qos > 0 {
		b = binary.BigEndian.AppendUint16(b, p.id)
	}
	b = append(appendVarint(b, len(p.properties)), p.properties...)
	return append(b, p.payload...)
}

func appendPubrel(b []byte, id uint16) []byte {
	return binary.BigEndian.AppendUint16(append(b, packetPubrel<<4|2, 2), id)
}

// answer is what an acknowledgement says.
type answer struct {
	id     uint16
	reason byte
	text   string // the broker's words
}

// readAnswer reads PUBACK, PUBREC and PUBCOMP.
func readAnswer(body []byte) (a answer, err error) {
	if len(body) < 2 {
		return a, errMalformed
	}
	a.id = binary.BigEndian.Uint16(body)
	if len(body) > 2 {
		a.reason = body[2]
	}
	if len(body) > 3 {
		_, err = readProperties(body[3:], func(id byte, _ uint32, text []byte) {
			if id == propReasonString {
				a.text = string(text)
			}
		})
	}
	return a, err
}

// readProperties walks the properties at the start of b and gives what follows. f gets a number or a text.
func readProperties(b []byte, f func(id byte, number uint32, text []byte)) ([]byte, error) {
	n, b, err := readVarint(b)
	if err != nil || len(b) < n {
		return nil, errMalformed
	}
	list, rest := b[:n], b[n:]
	for len(list) > 0 {
		id := list[0]
		list = list[1:]
		width, pairs := 0, 0
		switch id {
		case 0x01, 0x17, 0x19, 0x24, 0x25, 0x28, 0x29, 0x2A:
			width = 1
		case 0x13, 0x21, 0x22, 0x23:
			width = 2
		case 0x02, 0x11, 0x18, 0x27:
			width = 4
		case 0x03, 0x08, 0x09, 0x12, 0x15, 0x16, 0x1A, 0x1C, 0x1F:
			pairs = 1
		case propUser:
			pairs = 2
		case 0x0B:
			if n, list, err = readVarint(list); err != nil {
				return nil, err
			}
			f(id, uint32(n), nil)
			continue
		default:
			return nil, fmt.Errorf("%w: property %#x", errMalformed, id)
		}
		if width > 0 {
			if len(list) < width {
				return nil, errMalformed
			}
			number := uint32(0)
			for _, b := range list[:width] {
				number = number<<8 | uint32(b)
			}
			f(id, number, nil)
			list = list[width:]
			continue
		}
		for range pairs {
			var text []byte
			if text, list, err = readText(list); err != nil {
				return nil, err
			}
			f(id, 0, text)
		}
	}
	return rest, nil
}

func readVarint(b []byte) (n int, rest []byte, err error) {
	for i := 0; i < len(b) && i < 4; i++ {
		n |= int(b[i]&0x7F) << (7 * i)
		if b[i] < 0x80 {
			return n, b[i+1:], nil
		}
	}
	return 0, nil, errMalformed
}

func readText(b []byte) (text, rest []byte, err error) {
	if len(b) < 2 || len(b) < 2+int(binary.BigEndian.Uint16(b)) {
		return nil, nil, errMalformed
	}
	n := 2 + int(binary.BigEndian.Uint16(b))
	return b[2:n], b[n:], nil
}

// readPublish reads a message that came: of QoS 0, for the only subscription asks for no more.
func readPublish(p packet) (topic, payload []byte, err error) {
	topic, rest, err := readText(p.body)
	if err != nil {
		return nil, nil, err
	}
	if p.flags&6 != 0 {
		return nil, nil, fmt.Errorf("%w: a message of a QoS that nobody asked for", errMalformed)
	}
	payload, err = readProperties(rest, func(byte, uint32, []byte) {})
	return topic, payload, err
}
