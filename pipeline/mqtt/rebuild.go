package mqtt

import (
	"fmt"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Rebuild makes the dedup tables of all sessions from their newest anchors and one pass over the journal behind the oldest start of
// these; over all of it when a session has none. Run does it for its own session when it was not done before; with several sessions
// one pass is cheaper. Not concurrently with Run.
func Rebuild(journal pipeline.Journal, sessions ...*Session) error {
	anchors, err := newestAnchors(journal, sessions)
	if err == nil {
		err = rebuild(journal, anchors, sessions)
	}
	if err != nil {
		return fmt.Errorf("rebuild dedup tables: %w", err)
	}
	return nil
}

// newestAnchors gives the newest anchor of each session that has one in reach. One whose start is trimmed would miss records.
func newestAnchors(journal pipeline.Journal, sessions []*Session) (map[*Session]*anchor, error) {
	missing := make(map[string]*Session, len(sessions))
	for _, s := range sessions {
		missing[s.config.Name] = s
	}
	found := make(map[*Session]*anchor, len(sessions))
	isAnchor := func(k pipeline.EntryKind) bool { return k == pipeline.EntryAnchor }
	err := journal.ScanBack(isAnchor, func(e *pipeline.Entry) (more bool, err error) {
		s := missing[e.Session]
		if s == nil {
			return true, nil
		}
		a, err := decodeAnchor(e.Payload)
		if err != nil {
			return false, fmt.Errorf("record %s: %w", e.Pos, err)
		}
		if a.start >= journal.First() || s.fault.anchorTrimmed {
			found[s] = a
		}
		delete(missing, e.Session)
		return len(missing) > 0, nil
	})
	return found, err
}

func rebuild(journal pipeline.Journal, anchors map[*Session]*anchor, sessions []*Session) error {
	type behind struct {
		*Session
		start pipeline.Position
	}
	byName := make(map[string]behind, len(sessions))
	from, durable := journal.Last()+1, journal.Durable()
	held := int64(durable) + 1 - int64(journal.First())
	for _, s := range sessions {
		s.forgetAll()
		b := behind{Session: s}
		if a := anchors[s]; a != nil {
			s.beginAt(a)
			b.start = a.start
		}
		byName[s.config.Name] = b
		from = min(from, b.start)
	}
	err := journal.Scan(from, func(e *pipeline.Entry) error {
		if b := byName[e.Session]; b.Session != nil && e.Pos >= b.start {
			return b.replay(e)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, s := range sessions {
		s.mu.Lock()
		s.machine.granted = sameSubscriptions(s.granted, s.wanted)
		s.rebuilt = true
		far := s.anchors.span
		if anchors[s] == nil {
			far = max(far-held, 0) // what the journal holds was read in whole, and is again: a little journal needs no anchor, a long one its first soon
		}
		s.takeAnchor(durable+1, far)
		s.mu.Unlock()
	}
	return nil
}

func (s *Session) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.table, s.order, s.granted, s.machine, s.rebuilt, s.next = table{}, idOrder{}, nil, machine{}, false, anchoring{}
}

// replay takes one record of this session as the tap did when it wrote it.
func (s *Session) replay(e *pipeline.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Kind {
	case pipeline.EntryMessage, pipeline.EntryStub:
		if e.Stamp.Wall != 0 {
			s.receivedAt.Store(e.Stamp.Wall)
		}
		hash, err := recordHash(e)
		if err != nil {
			return err
		}
		if e.QoS > 0 {
			// Where connections began is not in the journal: a step back counts as one between connections.
			s.order.observe(e.PacketID, e.Dup, true)
		}
		s.table.message(e.PacketID, e.QoS, hash, e.Pos)
	case pipeline.EntryRelease:
		if s.fault.releaseErases {
			s.table.drop(e.PacketID)
		}
		s.table.setReleased(e.PacketID, true)
	case pipeline.EntrySession:
		s.table.clear()
		s.order, s.granted = idOrder{}, nil
	case pipeline.EntryForget:
		ids, err := decodeForget(e.Payload)
		if err != nil {
			return err
		}
		keep := make(map[uint16]bool, len(ids))
		for _, id := range ids {
			keep[id] = true
		}
		s.table.keepOnly(func(id uint16) bool { return keep[id] })
	case pipeline.EntrySubscribed:
		subs, err := decodeSubscribed(e.Payload)
		if err != nil {
			return err
		}
		s.granted, s.grantedPos = subs, e.Pos
	case pipeline.EntryCarry:
		return decodeCarried(e.Payload, func(c carried) { s.table.restore(c, e.Pos) })
	}
	return nil
}

// recordHash is the content key of a message record.
func recordHash(e *pipeline.Entry) (uint64, error) {
	if e.Kind == pipeline.EntryMessage {
		return hashMessage(e.Topic, e.Payload), nil
	}
	stub, err := ParseStub(e.Payload)
	if err != nil {
		return 0, fmt.Errorf("record %s: %w", e.Pos, err)
	}
	return stub.Hash, nil
}

// restore takes a carried entry. A record in the journal that is as new or newer wins: a carry may have been written while
// the id's next message was on its way.
func (t *table) restore(c carried, pos pipeline.Position) {
	e := slot{hash: c.hash, pos: pos, count: uint32(t.count - c.age), mark: c.mark&(markQoS|markReleased) | markPresent | markCarried}
	if p := t.at(c.id); p != nil && p.mark&markPresent != 0 {
		same := p.hash == e.hash && p.mark&markQoS == e.mark&markQoS
		switch {
		case same:
			e.mark |= p.mark & markReleased
			if t.age(p) < c.age {
				e.count = p.count
			}
		case t.age(p) <= c.age:
			return
		}
	}
	t.put(c.id, e)
}

// Carry writes the live part of the table whose records lie below before: the journal calls it before it recycles them, and
// syncs what was added. add appends one record. Entries that can match nothing any more are left out. Before Rebuild it
// returns ErrNotRebuilt: nothing must be recycled while the table is still being read from it.
//
// The table stays locked meanwhile, so that no session or forget record can come between its reading and its writing; the
// tap holds no lock while it appends, so both can proceed.
func (s *Session) Carry(before pipeline.Position, add func(*pipeline.Entry) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.rebuilt {
		return fmt.Errorf("carry dedup entries of broker %s: %w", s.config.Name, ErrNotRebuilt)
	}
	// Where the new records will lie is known only when the journal tells (Pos). A lower bound is enough: at worst an entry
	// is carried again too early. The journal itself must not be asked here: it may hold its own lock.
	behind := max(before, s.lastPos+1)
	if len(s.granted) > 0 && s.grantedPos < before {
		if err := add(&pipeline.Entry{Kind: pipeline.EntrySubscribed, Session: s.config.Name, Payload: encodeSubscribed(s.granted)}); err != nil {
			return fmt.Errorf("carry granted filters: %w", err)
		}
		s.grantedPos = behind
	}
	var ids []uint16
	sequential, w := s.order.sequential(), int64(s.config.DedupWindow)
	s.table.ids(func(id uint16) {
		if s.table.at(id).pos < before && s.table.worth(id, sequential, w) {
			ids = append(ids, id)
		}
	})
	for len(ids) > 0 {
		n := min(len(ids), carriedMax)
		var payload []byte
		for _, id := range ids[:n] {
			e := s.table.at(id)
			payload = appendCarried(payload, carried{id: id, mark: e.mark & (markQoS | markReleased), hash: e.hash, age: s.table.age(e)})
		}
		e := pipeline.Entry{Kind: pipeline.EntryCarry, Session: s.config.Name, Payload: payload}
		if err := add(&e); err != nil {
			return fmt.Errorf("carry dedup entries: %w", err)
		}
		for _, id := range ids[:n] {
			s.table.move(id, max(behind, e.Pos))
		}
		ids = ids[n:]
	}
	return nil
}

// lastReceived is when the last message was journaled, by the wall clock.
func (s *Session) lastReceived() time.Time { return time.UnixMilli(s.receivedAt.Load()) }
