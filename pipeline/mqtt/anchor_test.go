package mqtt

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

var anchorFields = cmp.AllowUnexported(anchor{}, anchored{}, carried{}, idOrder{}, subscription{})

func someAnchor() *anchor {
	return &anchor{
		start: 1 << 40, receivedAt: 1767225600000, order: idOrder{last: 65535, run: 9000, regressions: 2, scattered: true},
		granted: []subscription{{"a/#", 1}, {"b/+", 2}}, grantedPos: 77,
		entries: []anchored{
			{carried{id: 1, mark: 2, hash: 1 << 63, age: 0}, 1<<40 - 1},
			{carried{id: 65535, mark: 1 | markCarried, hash: 5, age: 32767}, 3},
			{carried{id: 9, mark: 2 | markReleased, age: ageMax}, 1 << 30},
		},
	}
}

func TestAnchorRoundTripAndCut(t *testing.T) {
	for _, a := range []*anchor{someAnchor(), {start: 1}} {
		b := encodeAnchor(a)
		got, err := decodeAnchor(b)
		if err != nil || !cmp.Equal(a, got, anchorFields) {
			t.Fatalf("%v: %s", err, cmp.Diff(a, got, anchorFields))
		}
		whole := 0 // cut between two entries it is an anchor with fewer of them: the journal's frame has the checksum
		for n := range b {
			if _, err := decodeAnchor(b[:n]); err == nil {
				whole++
			} else if !errors.Is(err, ErrRecord) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
		if whole != len(a.entries) {
			t.Errorf("%d of %d cuts are taken", whole, len(b))
		}
		bad := slices.Clone(b)
		bad[0]++
		if _, err := decodeAnchor(bad); !errors.Is(err, ErrRecord) {
			t.Errorf("a newer version: %v", err)
		}
	}
}

// history drives a session through its own code, without a broker: every record in the journal is one that the session wrote.
type history struct {
	t       *testing.T
	random  *rand.Rand
	journal *memJournal
	fault   faults
	live    *Session
	tap     *tap
	conn    *chunkConn
	id      uint16
	waiting []uint16 // QoS 2 without PUBREL
	scatter bool     // the broker gives out ids at random
	trims   bool
	n       int
}

const historyWindow = 12

func newHistory(t *testing.T, seed uint64, trims bool, f faults) *history {
	h := &history{t: t, random: rand.New(rand.NewPCG(seed, 77)), journal: newMemJournal(), fault: f, trims: trims, scatter: seed%3 == 0}
	h.journal.hold(true)
	t.Cleanup(func() { h.journal.die(errKilled) })
	h.live = h.session()
	h.restart()
	return h
}

func (h *history) session() *Session {
	c := testConfig("mqtt://127.0.0.1:1", 2)
	c.DedupWindow = historyWindow
	s, err := NewSession(c, h.journal, slog.New(slog.DiscardHandler), Hooks{})
	if err != nil {
		h.t.Fatal(err)
	}
	s.fault = h.fault
	s.anchors = anchorPolicy{records: 5 + h.random.Int64N(2*historyWindow), span: 10 + h.random.Int64N(60), perItem: h.random.Int64N(4)}
	return s
}

// durable makes everything so.
func (h *history) durable() {
	h.journal.mu.Lock()
	h.journal.durable = pipeline.Position(len(h.journal.entries))
	h.journal.mu.Unlock()
}

func (h *history) must(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		h.t.Helper()
		h.t.Fatal(err)
	}
}

// feed gives the tap packets.
func (h *history) feed(b []byte) {
	h.conn.data = b
	for err := error(nil); err == nil; {
		err = h.tap.packet()
		h.must(err)
	}
	h.tap.rest = nil
}

// restart is a new process; the session goes on from what Rebuild makes of the journal.
func (h *history) restart() {
	h.durable()
	s := h.session()
	h.must(Rebuild(h.journal, s))
	h.live = s
	h.connect(h.random.IntN(5) > 0)
}

// connect is CONNACK to SUBACK.
func (h *history) connect(present bool) {
	h.live.step(evLost)
	h.must(h.live.writeAnchor())
	h.conn = &chunkConn{}
	h.tap = newTap(h.live, h.conn)
	h.live.connectGoesOut()
	h.feed([]byte{packetConnack << 4, 2, map[bool]byte{true: 1}[present], 0})
	if !present {
		h.waiting, h.id = nil, 0
	}
	if h.live.phase() == phaseSweeping {
		for range h.random.IntN(6) {
			h.again()
		}
		for h.live.phase() == phaseSweeping {
			h.durable()
			h.feed([]byte{packetPingresp << 4, 0})
		}
	}
	if h.live.phase() == phaseSubscribing { // as Session.subscribe
		pos, err := h.journal.Append(&pipeline.Entry{Kind: pipeline.EntrySubscribed, Session: h.live.config.Name, Payload: encodeSubscribed(h.live.wanted)})
		h.must(err)
		h.live.mu.Lock()
		h.live.granted, h.live.grantedPos = h.live.wanted, pos
		h.live.mu.Unlock()
		h.live.step(evGranted)
	}
}

// again sends one of the last messages with DUP=1.
func (h *history) again() {
	var messages []pipeline.Entry
	for _, e := range h.journal.all() {
		if e.Kind == pipeline.EntrySession { // a fresh session has nothing to send again
			messages = nil
		}
		if e.Kind == pipeline.EntryMessage && e.Session == h.live.config.Name && e.QoS > 0 && (h.scatter || e.PacketID <= h.id) {
			messages = append(messages, e)
		}
	}
	if len(messages) > 0 {
		e := messages[len(messages)-1-h.random.IntN(min(len(messages), 2*historyWindow))]
		h.feed(encodePublish(string(e.Topic), e.QoS, e.PacketID, true, false, e.Payload))
	}
}

func (h *history) message() []byte {
	qos := byte(h.random.IntN(3))
	if h.id++; h.id == 0 || h.scatter {
		h.id = 1 + uint16(h.random.IntN(20))
	}
	if qos == 2 && h.random.IntN(2) == 0 {
		h.waiting = append(h.waiting, h.id)
	}
	h.n++
	payload := h.n
	if h.scatter { // now and then the same again
		payload %= 50
	}
	return encodePublish("t/1", qos, h.id, false, false, fmt.Append(nil, payload))
}

func (h *history) step() {
	switch h.random.IntN(14) {
	default:
		var b []byte
		for range 1 + h.random.IntN(8) {
			b = append(b, h.message()...)
		}
		h.feed(b)
	case 0:
		h.again()
	case 1, 2:
		if len(h.waiting) > 0 {
			i := h.random.IntN(len(h.waiting))
			id := h.waiting[i]
			h.waiting = slices.Delete(h.waiting, i, i+1)
			h.feed([]byte{packetPubrel<<4 | 2, 2, byte(id >> 8), byte(id)})
		}
	case 3, 4: // another session's traffic
		for range h.random.IntN(40) {
			_, err := h.journal.Append(&pipeline.Entry{Kind: pipeline.EntryMessage, QoS: 1, PacketID: h.id, Session: "other"})
			h.must(err)
		}
	case 5:
		h.feed([]byte{packetPingresp << 4, 0})
	case 6:
		if !h.scatter && h.random.IntN(3) == 0 { // the broker came back from an old snapshot
			h.id -= min(h.id, uint16(h.random.IntN(10)))
		}
		h.connect(h.random.IntN(6) > 0)
	case 7:
		h.restart()
	case 8:
		if last := h.journal.Last(); h.trims && last > 20 {
			h.must(h.journal.trimAt(h.live, last-pipeline.Position(h.random.IntN(20)), h.durable))
		}
	}
}

// trimAt is trim with commits by hand.
func (j *memJournal) trimAt(s *Session, before pipeline.Position, commit func()) error {
	if err := s.Carry(before, func(e *pipeline.Entry) error { _, err := j.Append(e); return err }); err != nil {
		return err
	}
	commit()
	j.mu.Lock()
	j.first = max(j.first, before)
	j.mu.Unlock()
	return nil
}

// matters is what of a session's table can still decide anything while ids are sequential or not. at tells whether positions are looked
// at: memory knows those of carried entries only roughly.
func matters(s *Session, sequential, at bool) map[uint16]known {
	m := map[uint16]known{}
	s.table.ids(func(id uint16) {
		if k := s.table.lookup(id); s.table.worth(id, sequential, historyWindow) {
			if k.qos == 2 && !k.released {
				k.age = min(k.age, historyWindow) // no matter how old
			}
			if !at {
				k.pos, k.carried = 0, false
			}
			m[id] = k
		}
	})
	return m
}

// compare rebuilds the table with and without anchors. It returns what differs, and how many records the quick way read.
func (h *history) compare() (wrong string, read int) {
	h.durable()
	quick, full := h.session(), h.session()
	anchors, err := newestAnchors(h.journal, []*Session{quick})
	h.must(err)
	if a := anchors[quick]; a != nil {
		read = int(h.journal.Last() - a.start)
	} else {
		read = int(h.journal.Last() - h.journal.First())
	}
	h.must(rebuild(h.journal, anchors, []*Session{quick}))
	h.must(rebuild(h.journal, nil, []*Session{full}))
	same := func(what string, a, b any) {
		if diff := cmp.Diff(a, b, cmp.AllowUnexported(known{}, idOrder{}, subscription{})); diff != "" && wrong == "" {
			wrong = what + diff
		}
	}
	switch {
	case !h.trims:
		same("table: ", matters(full, true, true), matters(quick, true, true))
		same("position of the granted filters: ", full.grantedPos, quick.grantedPos)
		// Memory has judged the order by what it saw. A full pass sees the same when every step back came between connections and no
		// copy moved the order, which leaves no record.
		if !h.scatter {
			same("order: ", full.order, quick.order)
		}
	default: // a full pass does not see what is trimmed; memory does
		sequential := h.live.order.sequential()
		same("table: ", matters(h.live, sequential, false), matters(quick, sequential, false))
	}
	same("granted filters: ", full.granted, quick.granted)
	return wrong, read
}

func runHistory(t *testing.T, seed uint64, trims bool, f faults) (wrong string, whole, read int) {
	h := newHistory(t, seed, trims, f)
	for range 120 {
		h.step()
		diff, n := h.compare()
		if diff != "" {
			return fmt.Sprintf("seed %d: %s", seed, diff), 0, 0
		}
		whole, read = whole+int(h.journal.Last()-h.journal.First()), read+n
	}
	return "", whole, read
}

// TestRule01_AnchorsRebuildTheSameTable: from the newest anchor on, Rebuild makes what it makes of the whole journal (RULES 1 to 3, 6).
func TestRule01_AnchorsRebuildTheSameTable(t *testing.T) {
	for _, trims := range []bool{false, true} {
		whole, read := 0, 0
		for seed := range uint64(60) {
			if *seedFlag != 0 {
				seed = *seedFlag
			}
			wrong, w, r := runHistory(t, seed, trims, faults{})
			if wrong != "" {
				t.Fatalf("trims %v, %s", trims, wrong)
			}
			whole, read = whole+w, read+r
		}
		if !trims && read > whole/3 {
			t.Errorf("with anchors %d of %d records are read", read, whole)
		}
		t.Logf("trims %v: with anchors %d of %d records are read", trims, read, whole)
	}
	for name, f := range map[string]faults{
		"entries left out":       {anchorForgets: true},
		"ages of another moment": {anchorAges: true},
		"start is trimmed":       {anchorTrimmed: true},
		"start is too late":      {anchorEarly: true},
	} {
		found := false
		for seed := uint64(0); seed < 60 && !found; seed++ {
			wrong, _, _ := runHistory(t, seed, f.anchorTrimmed, f)
			found = wrong != ""
		}
		if !found {
			t.Errorf("the planted fault was not found: %s", name)
		}
	}
}
