package mqtt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline/topic"
)

// publish reads a PUBLISH: in place when it fits the buffer.
func (t *tap) publish(h header) error {
	flags, err := parseFlags(h.first)
	if err != nil {
		return err
	}
	if h.size+h.remaining > readBufferBytes {
		return t.publishLarge(h, flags)
	}
	if t.large != nil {
		if t.small++; t.small > largeIdle {
			t.large = nil
		}
	}
	body, err := t.body(h, 0)
	if err != nil {
		return err
	}
	name, id, payload, err := parsePublish(flags, body)
	if err != nil {
		return err
	}
	a := arrival{publishFlags: flags, id: id, topic: name, source: t.session.router.find(name), bytes: len(payload), data: payload}
	a.hash = hashMessage(name, payload)
	if reason := t.fault(&a); reason != 0 {
		t.stubOf(&a, reason, sha256.Sum256(payload), payload)
	}
	return t.arrive(&a)
}

// publishLarge reads a PUBLISH that does not fit the buffer. What is longer than its source allows is hashed as it comes.
func (t *tap) publishLarge(h header, flags publishFlags) error {
	a := arrival{publishFlags: flags}
	if err := t.variable(h, &a); err != nil {
		return err
	}
	a.source = t.session.router.find(a.topic)
	if a.bytes > t.limit(a.source) {
		return t.publishOversize(&a)
	}
	if cap(t.large) < a.bytes {
		t.large = make([]byte, a.bytes)
	}
	t.small = 0
	a.data = t.large[:a.bytes]
	if err := t.readFull(a.data); err != nil {
		return err
	}
	a.hash = hashMessage(a.topic, a.data)
	if reason := t.fault(&a); reason != 0 {
		t.stubOf(&a, reason, sha256.Sum256(a.data), a.data)
	}
	return t.arrive(&a)
}

// variable reads topic and packet id of a large PUBLISH.
func (t *tap) variable(h header, a *arrival) error {
	if _, err := t.reader.Discard(h.size); err != nil {
		return err
	}
	b, err := t.peek(2)
	if err != nil {
		return err
	}
	topicBytes := int(binary.BigEndian.Uint16(b))
	v := variableBytes(topicBytes, a.qos)
	if a.bytes = h.remaining - v; a.bytes < 0 {
		return fmt.Errorf("read PUBLISH of %d bytes with a topic of %d: %w", h.remaining, topicBytes, ErrProtocol)
	}
	if cap(t.topic) < v {
		t.topic = make([]byte, v)
	}
	body := t.topic[:v]
	if err := t.readFull(body); err != nil {
		return err
	}
	a.topic, a.id, _, err = parsePublish(a.publishFlags, body)
	return err
}

func (t *tap) readFull(b []byte) error {
	t.kickIfDue()
	t.waiting.Store(true)
	defer t.waiting.Store(false)
	_, err := io.ReadFull(t.reader, b)
	return err
}

// publishOversize hashes a payload without holding it and journals a stub (R14).
func (t *tap) publishOversize(a *arrival) error {
	digest := xxhash.New()
	sum := sha256.New()
	head := make([]byte, 0, stubHeadMax)
	t.kickIfDue()
	for left := a.bytes; left > 0; {
		b, err := t.peek(min(left, readBufferBytes/2))
		if err != nil {
			return err
		}
		digest.Write(b)
		sum.Write(b)
		head = append(head, b[:min(len(b), stubHeadMax-len(head))]...)
		t.reader.Discard(len(b)) // cannot fail: it is buffered
		left -= len(b)
	}
	a.hash = contentHash(a.topic, digest.Sum64())
	reason := ReasonTooLarge
	if topic.Fault(a.topic) != "" {
		reason = ReasonTopic
	}
	t.stubOf(a, reason, [32]byte(sum.Sum(nil)), head)
	return t.arrive(a)
}

// fault says why a message cannot be journaled whole; 0 when it can.
func (t *tap) fault(a *arrival) Reason {
	if !t.session.router.hit && topic.Fault(a.topic) != "" {
		return ReasonTopic
	}
	if a.bytes > t.limit(a.source) {
		return ReasonTooLarge
	}
	return 0
}

// stubOf turns a into a stub. payload is what is known of the payload.
func (t *tap) stubOf(a *arrival, reason Reason, sum [32]byte, payload []byte) {
	s := Stub{Reason: reason, Length: uint64(a.bytes), SHA256: sum, Hash: a.hash}
	switch reason {
	case ReasonTooLarge:
		s.Head = payload[:min(len(payload), stubHeadMax)]
	case ReasonTopic:
		s.Head = payload
	}
	t.stub = appendStub(t.stub[:0], &s)
	a.data, a.stub = t.stub, reason
}

func (t *tap) limit(source int) int {
	if source < 0 {
		return DefaultSource().MaxMessage
	}
	return t.session.config.Sources[source].MaxMessage
}
