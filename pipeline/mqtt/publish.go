package mqtt

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// runMax is the number of messages that are worked on together: enough that what is done per run hardly counts, and few enough that
// run and packets stay in the first level cache.
const runMax = 64

// publish reads a PUBLISH in place when it fits the buffer, together with those that lie whole behind it.
func (t *tap) publish(h header) error {
	if h.size+h.remaining > readBufferBytes {
		flags, err := parseFlags(h.first)
		if err != nil {
			return err
		}
		return t.publishLarge(h, flags)
	}
	if _, err := t.peek(h.size + h.remaining); err != nil {
		return err
	}
	buf, err := t.reader.Peek(t.reader.Buffered())
	if err != nil {
		return err
	}
	run, size, err := t.cut(buf)
	if err != nil {
		return err
	}
	if t.large != nil {
		if t.small += len(run); t.small > largeIdle {
			t.large = nil
		}
	}
	t.reader.Discard(size) // cannot fail: it is buffered, and stays in place until more is read
	return t.arrive(run)
}

// cut takes a run of PUBLISHes off the front of buf, which begins with a whole one; size is their length. A run ends before a packet that
// is another, or not whole, or wrong, before a message that must go alone, and where packet ids do not rise: so none stands twice in it.
func (t *tap) cut(buf []byte) (run []arrival, size int, err error) {
	run = t.run[:0]
	id := uint16(0)
	for len(run) < runMax {
		h, whole, herr := parseHeader(buf[size:])
		end := size + h.size + h.remaining
		if herr != nil || !whole || h.first>>4 != packetPublish || end > len(buf) {
			break
		}
		run = run[:len(run)+1]
		a := &run[len(run)-1]
		alone, err := t.parse(h, buf[size+h.size:end], a)
		if len(run) > 1 && (err != nil || alone || a.qos > 0 && a.id <= id && !t.session.fault.runRepeats) {
			return run[:len(run)-1], size, nil // it comes first the next time
		}
		if err != nil {
			return nil, 0, err
		}
		size = end
		if alone {
			break
		}
		if a.qos > 0 {
			id = a.id
		}
	}
	return run, size, nil
}

// parse reads a PUBLISH into a. alone: it becomes a stub, or its source has limits.
func (t *tap) parse(h header, body []byte, a *arrival) (alone bool, err error) {
	flags, err := parseFlags(h.first)
	if err != nil {
		return false, err
	}
	name, id, payload, err := parsePublish(flags, body)
	if err != nil {
		return false, err
	}
	r := t.session.router.find(name)
	*a = arrival{publishFlags: flags, id: id, topic: name, topicHash: r.hash, source: r.source, bytes: len(payload), data: payload}
	a.hash = contentHash(r.hash, xxhash.Sum64(payload))
	if reason := t.fault(a, r.fault); reason != 0 {
		t.stubOf(a, reason, sha256.Sum256(payload), payload)
		return true, nil
	}
	return r.source >= 0 && t.session.limits[r.source].any(), nil
}

// publishLarge reads a PUBLISH that does not fit the buffer. What is longer than its source allows is hashed as it comes.
func (t *tap) publishLarge(h header, flags publishFlags) error {
	a := arrival{publishFlags: flags}
	if err := t.variable(h, &a); err != nil {
		return err
	}
	r := t.session.router.find(a.topic)
	a.source, a.topicHash = r.source, r.hash
	if a.bytes > t.limit(a.source) {
		return t.publishOversize(&a, r.fault)
	}
	if cap(t.large) < a.bytes {
		t.large = make([]byte, a.bytes)
	}
	t.small = 0
	a.data = t.large[:a.bytes]
	if err := t.readFull(a.data); err != nil {
		return err
	}
	a.hash = contentHash(a.topicHash, xxhash.Sum64(a.data))
	if reason := t.fault(&a, r.fault); reason != 0 {
		t.stubOf(&a, reason, sha256.Sum256(a.data), a.data)
	}
	return t.alone(&a)
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
func (t *tap) publishOversize(a *arrival, topicFault string) error {
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
	a.hash = contentHash(a.topicHash, digest.Sum64())
	reason := ReasonTooLarge
	if topicFault != "" {
		reason = ReasonTopic
	}
	t.stubOf(a, reason, [32]byte(sum.Sum(nil)), head)
	return t.alone(a)
}

// fault says why a message cannot be journaled whole; 0 when it can.
func (t *tap) fault(a *arrival, topicFault string) Reason {
	if topicFault != "" {
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

// alone is arrive for one message.
func (t *tap) alone(a *arrival) error {
	t.run[0] = *a
	return t.arrive(t.run[:1])
}

func (t *tap) limit(source int) int {
	if source < 0 {
		return DefaultSource().MaxMessage
	}
	return t.session.config.Sources[source].MaxMessage
}
