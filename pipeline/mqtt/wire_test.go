package mqtt

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/eclipse/paho.mqtt.golang/packets"
	"github.com/google/go-cmp/cmp"
)

func encodePublish(topic string, qos byte, id uint16, dup, retain bool, payload []byte) []byte {
	p := packets.NewControlPacket(packets.Publish).(*packets.PublishPacket)
	p.TopicName, p.Qos, p.MessageID, p.Dup, p.Retain, p.Payload = topic, qos, id, dup, retain, payload
	var b bytes.Buffer
	p.Write(&b)
	return b.Bytes()
}

func TestParsePublish(t *testing.T) {
	for _, size := range []int{0, 1, 100, 127, 128, 16383, 16384, 70000} {
		for qos := range byte(3) {
			whole := encodePublish("a/ö", qos, 0x1234, qos == 1, qos == 2, make([]byte, size))
			for cut := range min(len(whole), headerBytesMax) {
				if h, ok, err := parseHeader(whole[:cut]); err != nil || ok && h.size > cut {
					t.Fatalf("header of %d bytes: %+v %v", cut, h, err)
				}
			}
			h, ok, err := parseHeader(whole)
			if err != nil || !ok || h.size+h.remaining != len(whole) {
				t.Fatalf("header: %+v %v %v", h, ok, err)
			}
			f, err := parseFlags(h.first)
			if err != nil || f.qos != qos || f.dup != (qos == 1) || f.retain != (qos == 2) {
				t.Fatalf("flags: %+v %v", f, err)
			}
			topic, id, payload, err := parsePublish(f, whole[h.size:])
			if err != nil || string(topic) != "a/ö" || len(payload) != size || qos > 0 && id != 0x1234 {
				t.Fatalf("publish: %q %d %d %v", topic, id, len(payload), err)
			}
		}
	}
}

func FuzzParsePublish(f *testing.F) {
	f.Add(encodePublish("t/1", 1, 7, false, false, []byte("x")))
	f.Add(encodePublish("", 0, 0, false, true, nil))
	f.Add([]byte{0x32, 0xff, 0xff, 0xff, 0xff, 0x7f})
	f.Fuzz(func(t *testing.T, b []byte) {
		h, ok, err := parseHeader(b)
		if err != nil || !ok || h.first>>4 != packetPublish || h.size+h.remaining > len(b) {
			return
		}
		body := b[h.size : h.size+h.remaining]
		flags, err := parseFlags(h.first)
		if err != nil {
			return
		}
		topic, id, payload, err := parsePublish(flags, body)
		if err != nil {
			return
		}
		again := binary.BigEndian.AppendUint16(nil, uint16(len(topic)))
		again = append(again, topic...)
		if flags.qos > 0 {
			again = binary.BigEndian.AppendUint16(again, id)
		}
		if again = append(again, payload...); !bytes.Equal(again, body) {
			t.Fatalf("% x became % x", body, again)
		}
		// paho's codec must agree with ours.
		p, err := packets.ReadPacket(bytes.NewReader(b))
		if err != nil {
			t.Fatalf("paho refuses what we take: %v", err)
		}
		if q := p.(*packets.PublishPacket); q.TopicName != string(topic) || q.MessageID != id || !bytes.Equal(q.Payload, payload) {
			t.Fatalf("paho reads %v, we %q %d %q", q, topic, id, payload)
		}
	})
}

func FuzzRecords(f *testing.F) {
	f.Add(encodeSubscribed([]subscription{{"a/#", 1}, {"b", 2}}))
	f.Add(encodeForget([]uint16{1, 65535}))
	f.Add(appendCarried(nil, carried{id: 7, mark: 2, hash: 99, age: 3}))
	f.Add(encodeAnchor(someAnchor()))
	f.Add(appendStub(nil, &Stub{Reason: ReasonTopic, Length: 5, Hash: 6, Head: []byte("hello")}))
	f.Fuzz(func(t *testing.T, b []byte) {
		if subs, err := decodeSubscribed(b); err == nil {
			if again, err := decodeSubscribed(encodeSubscribed(subs)); err != nil || !sameSubscriptions(again, subs) {
				t.Fatalf("subscriptions %v became %v: %v", subs, again, err)
			}
		}
		if keep, err := decodeForget(b); err == nil && !bytes.Equal(encodeForget(keep), b) {
			t.Fatalf("kept ids % x became % x", b, encodeForget(keep))
		}
		if a, err := decodeAnchor(b); err == nil {
			if again, err := decodeAnchor(encodeAnchor(a)); err != nil || !cmp.Equal(a, again, anchorFields) {
				t.Fatalf("anchor %+v became %+v: %v", a, again, err)
			}
		}
		var again []byte
		if err := decodeCarried(b, func(c carried) { again = appendCarried(again, c) }); err == nil && len(b) > 1 && !bytes.Equal(again, b) {
			t.Fatalf("carried % x became % x", b, again)
		}
		if s, err := ParseStub(b); err == nil && !bytes.Equal(appendStub(nil, &s), b) {
			t.Fatalf("stub % x became % x", b, appendStub(nil, &s))
		}
	})
}

func TestStubTruncated(t *testing.T) {
	whole := appendStub(nil, &Stub{Reason: ReasonTooLarge, Length: 9})
	for n := range whole {
		if _, err := ParseStub(whole[:n]); err == nil {
			t.Errorf("a stub cut to %d bytes is taken", n)
		}
	}
}
