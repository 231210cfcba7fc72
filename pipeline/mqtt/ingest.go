package mqtt

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/weirstream/weir/pipeline"
)

// arrival is one PUBLISH on its way to the journal.
type arrival struct {
	publishFlags
	id     uint16
	source int // index in the config, -1 = none
	topic  []byte
	hash   uint64
	bytes  int    // length of the payload as sent
	data   []byte // the payload, or the payload of the stub
	stub   Reason // 0: data is the payload
}

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
	topic, id, payload, err := parsePublish(flags, body)
	if err != nil {
		return err
	}
	a := arrival{publishFlags: flags, id: id, topic: topic, source: t.session.router.find(topic), bytes: len(payload), data: payload}
	a.hash = hashMessage(topic, payload)
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
	if topicFault(a.topic) != "" {
		reason = ReasonTopic
	}
	t.stubOf(a, reason, [32]byte(sum.Sum(nil)), head)
	return t.arrive(a)
}

// fault says why a message cannot be journaled whole; 0 when it can.
func (t *tap) fault(a *arrival) Reason {
	if topicFault(a.topic) != "" {
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

// contentHash is the content key of the dedup table; FORMAT.md fixes it, since stubs and carried entries hold it.
func contentHash(topic []byte, payloadHash uint64) uint64 {
	return bits.RotateLeft64(xxhash.Sum64(topic)*0x9e3779b97f4a7c15, 31) ^ payloadHash
}

// hashMessage is the content key of a message held in memory.
func hashMessage(topic, payload []byte) uint64 { return contentHash(topic, xxhash.Sum64(payload)) }

// arrive decides, journals and queues the acknowledgement of one PUBLISH.
func (t *tap) arrive(a *arrival) error {
	s := t.session
	s.counters.received.Add(1)
	s.counters.bytes.Add(uint64(a.bytes))
	t.arrived.Add(1)
	if a.retain && !t.wantsRetained(a.source) {
		s.counters.retainedIgnored.Add(1)
		t.observe(a)
		return t.acknowledgeSeen(a, s.journal.Last())
	}
	if duplicate := t.judge(a); duplicate {
		s.counters.duplicates.Add(1)
		// Its original may not be durable yet: it lies at or below Last.
		return t.acknowledgeSeen(a, s.journal.Last())
	}
	if err := t.admit(a); err != nil {
		return err
	}
	t.entry = pipeline.Entry{
		Kind: pipeline.EntryMessage, QoS: a.qos, Retain: a.retain, Dup: a.dup, PacketID: a.id,
		Session: s.config.Name, Topic: a.topic, Payload: a.data,
	}
	if a.stub != 0 {
		t.entry.Kind = pipeline.EntryStub
		s.counters.stubs.Add(1)
	}
	if a.source >= 0 {
		t.entry.Source = s.config.Sources[a.source].Name
	} else {
		s.counters.unrouted.Add(1)
	}
	pos, err := t.append(&t.entry)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.lastPos = pos
	s.table.message(a.id, a.qos, a.hash, pos)
	if a.qos > 0 {
		s.table.touch(a.id)
	}
	s.mu.Unlock()
	s.counters.journaled.Add(1)
	t.progress.Store(true)
	return t.acknowledgeSeen(a, pos)
}

// acknowledgeSeen queues PUBACK or PUBREC.
func (t *tap) acknowledgeSeen(a *arrival, pos pipeline.Position) error {
	switch a.qos {
	case 1:
		return t.queueAck(packetPuback, a.id, pos)
	case 2:
		return t.queueAck(packetPubrec, a.id, pos)
	}
	if t.session.counters.qos0.Add(1) == 1 {
		t.session.log.Warn("messages at QoS 0 are at most once", "filter", t.filter(a.source))
	}
	return nil
}

func (t *tap) filter(source int) string {
	if source < 0 {
		return ""
	}
	return t.session.config.Sources[source].Filter
}

func (t *tap) wantsRetained(source int) bool {
	if source < 0 {
		return false
	}
	switch t.session.config.Sources[source].Retained {
	case RetainedInclude:
		return true
	case RetainedFresh:
		return !t.present
	}
	return false
}

// observe takes the packet id into the judgement of the broker's id order.
func (t *tap) observe(a *arrival) (back bool) {
	if a.qos == 0 {
		return false
	}
	s := t.session
	s.mu.Lock()
	defer s.mu.Unlock()
	return t.observeLocked(a)
}

func (t *tap) observeLocked(a *arrival) (back bool) {
	s := t.session
	was := s.order.sequential()
	back = s.order.observe(a.id, a.dup, t.first)
	if !a.dup {
		t.first = false
	}
	// RULES 2: an id that goes back while ids are sequential. A broker that reuses ids by design is told apart by doing it
	// within a connection.
	return back && was && s.order.sequential()
}

// judge looks a up in the table (RULES 1 to 3).
func (t *tap) judge(a *arrival) (duplicate bool) {
	if a.qos == 0 {
		return false
	}
	s := t.session
	s.mu.Lock()
	back := t.observeLocked(a)
	k := s.table.lookup(a.id)
	if s.fault.windowByPosition {
		k.age = int64(s.journal.Last() - k.pos)
	}
	duplicate = decide(k, seen{dup: a.dup, qos: a.qos, hash: a.hash}, s.order.sequential(), int64(s.config.DedupWindow))
	if s.fault.idAlone {
		duplicate = k.present && k.qos == a.qos && (a.dup || s.order.sequential())
	}
	if s.fault.dupOnly {
		duplicate = duplicate && a.dup
	}
	reused := !a.dup && !duplicate && k.present && !k.released && !k.carried && s.table.wasTouched(a.id) && k.pos > s.acked.upTo()
	if duplicate {
		s.table.touch(a.id)
	}
	s.mu.Unlock()
	if back {
		s.counters.wentBack.Add(1)
	}
	switch {
	case back:
		s.log.Warn("broker restarted from an old snapshot: its packet ids went back", "packet_id", a.id)
	case reused && s.counters.idReuse.Add(1) == 1:
		s.log.Error("broker reuses packet ids that are not acknowledged: duplicates cannot be told", "packet_id", a.id)
	case duplicate && k.pos <= s.acked.before():
		if s.counters.oldDuplicates.Add(1) == 1 {
			s.log.Info("broker sends again what was acknowledged long ago", "packet_id", a.id)
		}
	}
	return duplicate
}

// admit applies the limits of the source: the rate holds reading up, the quota turns a into a stub.
func (t *tap) admit(a *arrival) error {
	if a.source < 0 {
		return nil
	}
	l := &t.session.limits[a.source]
	if l.rate == 0 && l.bytesPerDay == 0 {
		return nil
	}
	now := time.Now()
	if l.bytesPerDay > 0 && a.stub == 0 && !l.spend(a.bytes, now) {
		if l.warned != l.dayFrom {
			l.warned = l.dayFrom
			t.session.log.Warn("bytes per day are used up: further messages become stubs", "source", t.session.config.Sources[a.source].Name)
		}
		t.stubOf(a, ReasonQuota, sha256.Sum256(a.data), nil)
	}
	if l.rate == 0 {
		return nil
	}
	if wait := l.take(now); wait > 0 {
		t.session.counters.throttled.Add(1)
		t.kickIfDue()
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.done:
			return errTapClosed
		}
	}
	return nil
}

// append journals e. When the journal is full it tells the session, which disconnects cleanly, and waits for that.
func (t *tap) append(e *pipeline.Entry) (pipeline.Position, error) {
	pos, err := t.session.journal.Append(e)
	switch {
	case err == nil:
		return pos, nil
	case errors.Is(err, pipeline.ErrJournalFull):
		t.tell(tapFull)
		<-t.done
		return 0, errTapClosed
	}
	t.session.fail(err)
	return 0, err
}

// release handles a PUBREL (RULES 3, 7).
func (t *tap) release(id uint16) error {
	s := t.session
	s.mu.Lock()
	live := s.table.live(id)
	if live {
		s.table.setReleased(id, true) // before the record, so that Carry cannot write the older state behind it
		s.table.touch(id)
	}
	s.mu.Unlock()
	pos := s.journal.Last()
	if live && !s.fault.noRelease || s.fault.releaseAlways {
		t.entry = pipeline.Entry{Kind: pipeline.EntryRelease, PacketID: id, Session: s.config.Name}
		var err error
		if pos, err = t.append(&t.entry); err != nil {
			s.mu.Lock()
			s.table.setReleased(id, !live)
			s.mu.Unlock()
			return err
		}
	}
	if s.fault.releaseErases {
		s.mu.Lock()
		s.table.drop(id)
		s.mu.Unlock()
	}
	if s.fault.compEarly {
		c := makeAck(packetPubcomp, id)
		_, err := t.send(c[:])
		return err
	}
	return t.queueAck(packetPubcomp, id, pos)
}

// connack takes the broker's word on the session, before the first re-sent packet is read (R3, RULES 4 to 6).
func (t *tap) connack(present bool) error {
	t.connackAt.Store(time.Now().UnixNano())
	t.present = present
	s := t.session
	e := evFresh
	if present {
		e = evPresent
	}
	s.mu.Lock()
	s.table.untouch()
	lost := !present && len(s.granted) > 0
	granted := s.granted
	var do action
	if s.machine, do = next(s.machine, e); s.fault.trustPresent && present && len(s.granted) > 0 {
		s.machine.phase, s.machine.known, do = phaseReady, true, 0
	}
	if s.fault.noSweep && do&actPing != 0 {
		s.machine.phase, do = phaseSubscribing, actSubscribe
	}
	if do&actVoid != 0 {
		s.table.clear()
		s.order = idOrder{}
		s.granted = nil
	}
	s.mu.Unlock()
	if do&actVoid != 0 {
		t.entry = pipeline.Entry{Kind: pipeline.EntrySession, Session: s.config.Name}
		if _, err := t.append(&t.entry); err != nil {
			return err
		}
	}
	if lost {
		if err := t.reportLost(granted); err != nil {
			return err
		}
	}
	if do&actPing != 0 {
		if _, err := t.send([]byte{packetPingreq << 4, 0}); err != nil {
			return err
		}
	}
	return nil
}

// reportLost says in the log and in the journal that the broker forgot the session: one gap per source.
func (t *tap) reportLost(granted []subscription) error {
	s := t.session
	s.counters.sessionLost.Add(1)
	s.log.Error("MQTT session lost: the broker forgot the client; messages published since the last receive time may be missing",
		"client_id", s.config.ClientID, "last_received", s.lastReceived().UTC().Format(time.RFC3339))
	text := "MQTT session lost: broker " + s.config.Name + " forgot client " + s.config.ClientID +
		"; messages published since " + s.lastReceived().UTC().Format(time.RFC3339) + " may be missing"
	for _, source := range s.config.Sources {
		for _, g := range granted {
			if g.filter != source.Filter {
				continue
			}
			t.entry = pipeline.Entry{Kind: pipeline.EntryGap, Session: s.config.Name, Source: source.Name, Payload: []byte(text)}
			if _, err := t.append(&t.entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// pong takes a PINGRESP: the answer to our own PINGREQ ends the sweep (RULES 6), the others are paho's.
func (t *tap) pong(h header) error {
	if _, err := t.body(h, 0); err != nil {
		return err
	}
	s := t.session
	s.mu.Lock()
	var do action
	s.machine, do = next(s.machine, evPong)
	if do&actForget == 0 {
		s.mu.Unlock()
		t.pass(h, nil)
		return nil
	}
	var keep []uint16
	s.table.ids(func(id uint16) {
		if s.table.wasTouched(id) {
			keep = append(keep, id)
		}
	})
	dropped := s.table.keepOnly(s.table.wasTouched)
	s.mu.Unlock()
	s.counters.forgotten.Add(uint64(dropped))
	// Written even when nothing was dropped here: an earlier attempt may have failed between the table and the journal.
	t.entry = pipeline.Entry{Kind: pipeline.EntryForget, Session: s.config.Name, Payload: encodeForget(keep)}
	if _, err := t.append(&t.entry); err != nil {
		return err
	}
	t.tell(tapSwept)
	return nil
}

// flush waits until everything appended is durable and acknowledges it.
func (t *tap) flush(ctx context.Context) error {
	if err := t.session.journal.Sync(ctx); err != nil {
		return err
	}
	t.writeDurable()
	return nil
}
