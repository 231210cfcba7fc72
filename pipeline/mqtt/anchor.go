package mqtt

import (
	"errors"

	"github.com/weirstream/weir/pipeline"
)

// An anchor bounds how much of the journal a start must read. It says what the session was at an earlier position, its start: the judgement
// of the id order, the granted filters, and of the dedup entries from before the start those that can still match anything now. From
// these and the records behind the start, Rebuild makes the same table as from the whole journal.
//
// Right is that for whatever start is chosen; cheap it is when W message records lie between start and anchor: what is older then
// matches nothing any more (RULES 1), but for QoS 2 messages that still wait for their PUBREL.
type anchor struct {
	start      pipeline.Position // every record of the session below it is in what follows
	receivedAt int64             // Unix ms of the last message, 0 = none
	order      idOrder
	granted    []subscription
	grantedPos pipeline.Position
	entries    []anchored
}

// anchored is a dedup entry whose record lies below the start. Its age is as of the start.
type anchored struct {
	carried
	pos pipeline.Position
}

// anchorPolicy says when an anchor is due. All counts begin at its start.
type anchorPolicy struct {
	records int64 // message records of the session
	span    int64 // journal positions, for a session that is quiet beside others
	perItem int64 // journal positions per dedup entry in the anchor, so that anchors stay a small part of what is written
}

const (
	// anchorRecordsMin keeps anchors rare when W is small.
	anchorRecordsMin = 1 << 14
	// anchorSpan is read in about 50 ms.
	anchorSpan = 1 << 17
	// anchorPerItem: 13 bytes of anchor for 16 messages.
	anchorPerItem = 16
)

func defaultAnchors(w int) anchorPolicy {
	return anchorPolicy{records: max(int64(w), anchorRecordsMin), span: anchorSpan, perItem: anchorPerItem}
}

// anchoring is the anchor that the session will write next. Session.mu guards it.
type anchoring struct {
	anchor
	taken bool
	count int64 // table.count at the start
	far   int64 // positions behind the start at which to look whether it is due
}

// takeAnchor notes the session's state at start. The caller holds mu, is the only one that appends records of the session but for Carry,
// and has entered all that lie below start.
func (s *Session) takeAnchor(start pipeline.Position, far int64) {
	if s.fault.anchorEarly {
		start += 3
	}
	s.next = anchoring{
		anchor: anchor{start: start, receivedAt: s.receivedAt.Load(), order: s.order, granted: s.granted, grantedPos: s.grantedPos},
		taken:  true, count: s.table.count, far: far,
	}
}

// anchorable: in the other phases Run's goroutine may be about to append.
func (s *Session) anchorable() bool {
	return s.machine.phase == phaseReady || s.machine.phase == phaseRefused || s.machine.phase == phaseOffline
}

// anchorIsDue is for the goroutine that appends the session's records; last is the journal's last position. The caller holds mu.
func (s *Session) anchorIsDue(last pipeline.Position) bool {
	n := &s.next
	return s.anchorable() && (!n.taken || s.table.count-n.count >= s.anchors.records || int64(last)-int64(n.start) >= n.far)
}

// writeAnchor journals an anchor when one is due, and takes the next one. It is for the goroutine that appends the session's records: the
// tap's reader, without a connection Run's. A full journal is no error: the next anchor bounds as much.
func (s *Session) writeAnchor() error {
	last := s.journal.Last()
	s.mu.Lock()
	if !s.anchorIsDue(last) {
		s.mu.Unlock()
		return nil
	}
	if !s.next.taken { // after an append that failed: what memory holds and what the journal holds may differ until the next one succeeds
		s.takeAnchor(last+1, s.anchors.span)
		s.mu.Unlock()
		return nil
	}
	a := s.next.anchor
	a.entries = s.anchoredEntries()
	own, far := s.table.count-s.next.count, int64(last)-int64(a.start)
	if worth := s.anchors.perItem * int64(len(a.entries)); own < s.anchors.records && far < worth {
		s.next.far = worth
		s.mu.Unlock()
		return nil
	}
	if s.fault.anchorForgets {
		a.entries = nil
	}
	s.mu.Unlock()
	pos, err := s.journal.Append(&pipeline.Entry{Kind: pipeline.EntryAnchor, Session: s.config.Name, Payload: encodeAnchor(&a)})
	if errors.Is(err, pipeline.ErrJournalFull) {
		return nil
	}
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.takeAnchor(pos+1, s.anchors.span)
	s.mu.Unlock()
	return nil
}

// anchoredEntries are the entries from below the start that can match anything now or later. Whether ids are sequential may change, so
// released ones count as if they were. The caller holds mu.
func (s *Session) anchoredEntries() (list []anchored) {
	since := s.table.count - s.next.count
	if s.fault.anchorAges {
		since = 0
	}
	w := int64(s.config.DedupWindow)
	for n, p := range s.table.pages {
		if p == nil {
			continue
		}
		for i := range p {
			e, id := &p[i], uint16(n<<8|i)
			// Mostly the first condition decides; worth then has the last word on what is left.
			if e.pos >= s.next.start || e.mark&markQoS != 2 && s.table.age(e) >= w || !s.table.worth(id, true, w) {
				continue
			}
			list = append(list, anchored{
				carried: carried{id: id, mark: e.mark & anchoredMarks, hash: e.hash, age: s.table.age(e) - since},
				pos:     e.pos,
			})
		}
	}
	return list
}

// forgetAnchor is called when an append failed: memory may be ahead of the journal.
func (s *Session) forgetAnchor() {
	s.mu.Lock()
	s.next = anchoring{}
	s.mu.Unlock()
}

// beginAt puts the session where the anchor says it was.
func (s *Session) beginAt(a *anchor) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order, s.granted, s.grantedPos = a.order, a.granted, a.grantedPos
	s.receivedAt.Store(a.receivedAt)
	for _, e := range a.entries {
		s.table.put(e.id, slot{hash: e.hash, pos: e.pos, count: uint32(s.table.count - e.age), mark: e.mark | markPresent})
	}
}
