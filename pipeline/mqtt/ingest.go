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
	id        uint16
	source    int // index in the config, -1 = none
	topic     []byte
	topicHash uint64
	hash      uint64 // of topic and payload
	bytes     int    // length of the payload as sent
	data      []byte // the payload, or the payload of the stub
	stub      Reason // 0: data is the payload

	// What the tap decided:
	known  bool // a duplicate, or a retained message that is not wanted: acknowledged without a record
	notice notice
	pos    pipeline.Position // of its record
}

// notice is what the log should say of an arrival.
type notice uint8

const (
	noticeNone   notice = iota
	noticeBack          // its id went back
	noticeReused        // its id was used again before it was acknowledged
	noticeOld           // it was acknowledged long ago
)

// contentHash is the content key of the dedup table; FORMAT.md fixes it, since stubs and carried entries hold it.
func contentHash(topicHash, payloadHash uint64) uint64 {
	return bits.RotateLeft64(topicHash*0x9e3779b97f4a7c15, 31) ^ payloadHash
}

// hashMessage is the content key of a message held in memory.
func hashMessage(topic, payload []byte) uint64 {
	return contentHash(xxhash.Sum64(topic), xxhash.Sum64(payload))
}

// arrive decides, journals and queues the acknowledgements of a run. Locks are taken per run, not per message; none is held while
// the journal may block. A run of several holds no id twice, and none that admit could hold up (publish).
func (t *tap) arrive(run []arrival) error {
	s := t.session
	t.count(run)
	fresh := t.judge(run)
	var before pipeline.Position
	if fresh < len(run) {
		before = s.journal.Last() // the originals may not be durable yet: they lie at or below
	}
	var err error
	if fresh > 0 {
		if len(run) == 1 {
			if err = t.admit(&run[0]); err != nil {
				s.counters.turnedAway.Add(1)
				return err
			}
		}
		entries := t.entriesOf(run)
		var n int
		n, err = s.journal.AppendAll(entries)
		run = t.enter(run, entries[:n])
		s.counters.turnedAway.Add(uint64(len(entries) - n))
	}
	if aerr := t.queueAcks(run, before); aerr != nil {
		return aerr
	}
	if err != nil {
		return t.refused(err)
	}
	return t.anchor()
}

// anchor journals an anchor when enter found that one is due.
func (t *tap) anchor() error {
	if !t.anchorDue {
		return nil
	}
	t.anchorDue = false
	if err := t.session.writeAnchor(); err != nil {
		return t.refused(err)
	}
	return nil
}

func (t *tap) count(run []arrival) {
	bytes := 0
	for i := range run {
		bytes += run[i].bytes
	}
	c := &t.session.counters
	c.received.Add(uint64(len(run)))
	c.bytes.Add(uint64(bytes))
	t.arrived.Add(uint64(len(run)))
}

// entriesOf makes the records of what is new in a run.
func (t *tap) entriesOf(run []arrival) []pipeline.Entry {
	s := t.session
	entries := t.entries[:0]
	for i := range run {
		a := &run[i]
		if a.known {
			continue
		}
		entries = entries[:len(entries)+1]
		e := &entries[len(entries)-1]
		e.Kind, e.QoS, e.Retain, e.Dup, e.PacketID = pipeline.EntryMessage, a.qos, a.retain, a.dup, a.id
		e.Session, e.Source, e.Topic, e.Payload = s.config.Name, "", a.topic, a.data
		if a.stub != 0 {
			e.Kind = pipeline.EntryStub
			s.counters.stubs.Add(1)
		}
		if a.source >= 0 {
			e.Source = s.config.Sources[a.source].Name
		} else {
			s.counters.unrouted.Add(1)
		}
	}
	return entries
}

// enter notes in the table what the journal took. It returns the part of the run that was dealt with, which is all of it unless the
// journal refused an entry.
func (t *tap) enter(run []arrival, entries []pipeline.Entry) []arrival {
	s := t.session
	took := 0
	s.mu.Lock()
	for i := range run {
		a := &run[i]
		if a.known {
			continue
		}
		if took == len(entries) {
			run = run[:i]
			break
		}
		a.pos = entries[took].Pos
		took++
		s.table.message(a.id, a.qos, a.hash, a.pos)
		if a.qos > 0 {
			s.table.touch(a.id)
		}
	}
	if took > 0 {
		s.lastPos = entries[took-1].Pos
		t.anchorDue = s.anchorIsDue(s.lastPos)
	}
	s.mu.Unlock()
	if took > 0 {
		s.counters.journaled.Add(uint64(took))
		s.receivedAt.Store(time.Now().UnixMilli())
		t.progress.Store(true)
	}
	return run
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

// observe takes the packet id into the judgement of the broker's id order. The caller holds mu.
func (t *tap) observe(a *arrival) (back bool) {
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

// judge looks the messages of a run up in the table (RULES 1 to 3) and returns how many need a record.
func (t *tap) judge(run []arrival) (fresh int) {
	s := t.session
	noticed := false
	s.mu.Lock()
	for i := range run {
		a := &run[i]
		switch {
		case a.retain && !t.wantsRetained(a.source):
			s.counters.retainedIgnored.Add(1)
			a.known = true
			if a.qos > 0 {
				t.observe(a)
			}
		case a.qos > 0:
			a.known = t.judgeOne(a, fresh)
			noticed = noticed || a.notice != noticeNone
		}
		if !a.known {
			fresh++
		}
	}
	s.mu.Unlock()
	if noticed {
		t.tellNotices(run)
	}
	return fresh
}

// judgeOne tells whether a is a duplicate; ahead is the number of records that the run makes before it. The caller holds mu.
func (t *tap) judgeOne(a *arrival, ahead int) (duplicate bool) {
	s := t.session
	back := t.observe(a)
	k := s.table.lookup(a.id)
	if !s.fault.runAges {
		k.age += int64(ahead)
	}
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
	if duplicate {
		s.counters.duplicates.Add(1)
	}
	switch {
	case back:
		a.notice = noticeBack
	case !a.dup && !duplicate && k.present && !k.released && !k.carried && s.table.wasTouched(a.id) && k.pos > s.acked.upTo():
		a.notice = noticeReused
	case duplicate && k.pos <= s.acked.before():
		a.notice = noticeOld
	}
	if duplicate {
		s.table.touch(a.id)
	}
	return duplicate
}

// tellNotices logs and counts what judge found, outside of mu.
func (t *tap) tellNotices(run []arrival) {
	s := t.session
	for i := range run {
		a := &run[i]
		switch a.notice {
		case noticeBack:
			s.counters.wentBack.Add(1)
			s.log.Warn("broker restarted from an old snapshot: its packet ids went back", "packet_id", a.id)
		case noticeReused:
			if s.counters.idReuse.Add(1) == 1 {
				s.log.Error("broker reuses packet ids that are not acknowledged: duplicates cannot be told", "packet_id", a.id)
			}
		case noticeOld:
			if s.counters.oldDuplicates.Add(1) == 1 {
				s.log.Info("broker sends again what was acknowledged long ago", "packet_id", a.id)
			}
		}
	}
}

// admit applies the limits of the source: the rate holds reading up, the quota turns a into a stub.
func (t *tap) admit(a *arrival) error {
	if a.source < 0 {
		return nil
	}
	l := &t.session.limits[a.source]
	if !l.any() {
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
		t.session.holdsBack()
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

// append journals e.
func (t *tap) append(e *pipeline.Entry) (pipeline.Position, error) {
	pos, err := t.session.journal.Append(e)
	if err != nil {
		return 0, t.refused(err)
	}
	return pos, nil
}

// refused handles an error of the journal. When it is full, the session is told, which disconnects cleanly, and that is waited for.
func (t *tap) refused(err error) error {
	t.session.forgetAnchor()
	if errors.Is(err, pipeline.ErrJournalFull) {
		t.tell(tapFull)
		<-t.done
		return errTapClosed
	}
	t.session.fail(err)
	return err
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
