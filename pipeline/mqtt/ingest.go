package mqtt

import (
	"context"
	"crypto/sha256"
	"errors"
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
	if a.dup {
		t.resent = true
	} else {
		t.first = false
		s.table.freshen(a.id)
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
	if !s.table.isFresh(id) {
		t.resent = true
	}
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

// flush waits until everything appended is durable and acknowledges it.
func (t *tap) flush(ctx context.Context) error {
	if err := t.session.journal.Sync(ctx); err != nil {
		return err
	}
	t.writeDurable()
	return nil
}
