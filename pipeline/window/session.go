package window

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// SessionConfig sets up session windows: rows of a key that are less than GapMs apart (with Split) or at most GapMs apart are one session
// [first, last + GapMs).
type SessionConfig struct {
	Config
	GapMs int64
	Split bool
}

// Validate names the field that is wrong.
func (c SessionConfig) Validate() error {
	if c.GapMs == 0 {
		return fmt.Errorf("%w: session: gap is 0 ms, want 1 to %d", ErrConfig, int64(spanMax))
	}
	if err := AssignSession(c.GapMs, c.Split).Validate(); err != nil {
		return err
	}
	return c.Config.validate("session")
}

// Session is the operator of session windows, as Flink's merging windows. A row is a window [t, t+gap); it merges with those of its key
// that it meets, and is late when what comes of that is over: end and lateness at or before the watermark. A session fires when the
// watermark reaches its end; a row that comes within the lateness fires it again at once. A row may join sessions that have fired with one
// another or with an open one: what they emitted stays emitted, and the session that came of them goes on with a revision above all of
// theirs. An open one then fires at its end.
type Session struct {
	base
	assign  Assigner
	entries *state.Table // key -> its sessions
	agenda  agenda
	lookKey []byte        // scratch of look
	there   int           // entries, as far as Aged knows
	list    []sessionHead // scratch: the sessions of a key
	nameA   []byte        // scratch: what text and lists lie under
	nameB   []byte
}

// An entry is the sessions of a key, by start, each of them a head and contents:
//
//	0  start, 8 end, 16 due  ms: when it comes out next, before its end or at it; never once it has and nothing came since
//	24 number  uint32, of its key: what its text and lists lie under
//	28 contents, of the aggregates' size; they begin with the count of firings
const sessionHeadBytes = 28

// NewSession makes session windows from a valid config.
func NewSession(c SessionConfig) *Session {
	s := &Session{base: newBase(c.Config), assign: AssignSession(c.GapMs, c.Split)}
	s.agenda = newAgenda()
	return s
}

func (s *Session) oneBytes() int { return sessionHeadBytes + s.acc.size }

// Open implements pipeline.Operator.
func (s *Session) Open(tables pipeline.Tables) (err error) {
	s.entries, err = tables.Table(state.Spec{Name: "session", Kind: state.Value, Type: "window.session", Version: 1, TTL: s.c.TTL, MaxKeys: s.c.MaxKeys})
	if err != nil {
		return err
	}
	if q := s.entries.NewQueue(); state.LargeBuilt && q != nil {
		s.agenda.far = newFarAgenda(q, s.look)
	}
	return s.open(tables)
}

// look gives the timer of a key as its entry tells it.
func (s *Session) look(key []byte) timer {
	s.lookKey = append(appendStart(s.lookKey[:0], 0), key...)
	entry, _ := s.entries.Get(s.lookKey)
	return s.next(s.parse(entry))
}

// Restored rebuilds the agenda.
func (s *Session) Restored() (err error) {
	s.entries.Range(func(key, _, val []byte) bool {
		if len(key) < startBytes || len(val) == 0 || len(val)%s.oneBytes() != 0 {
			err = fmt.Errorf("%w: sessions of %d bytes, want a multiple of %d", ErrState, len(val), s.oneBytes())
			return false
		}
		if err = s.check(s.parse(val)); err != nil {
			return false
		}
		s.plan(key[startBytes:], val, noTimer)
		return true
	})
	if err != nil {
		return err
	}
	s.there = s.entries.Len()
	s.skip()
	return s.restored()
}

// cellOf gives the contents of a session. name is scratch for what its text lies under.
func (s *Session) cellOf(name *[]byte, entry, key []byte, h sessionHead) cell {
	*name = append(appendStart((*name)[:0], int64(h.number)), key...)
	return cell{side: s.kept(), key: *name, entry: entry[h.at+sessionHeadBytes:][:s.acc.size:s.acc.size]}
}

// plan puts the next thing that time makes happen to a key into the agenda; was is what it was before.
func (s *Session) plan(key, entry []byte, was timer) {
	s.agenda.set(key, was, s.next(s.parse(entry)))
}

// next is the first thing that time makes happen to the sessions of a key.
func (s *Session) next(all []sessionHead) timer {
	next := noTimer
	for _, h := range all {
		at := h.End + s.c.LatenessMs // then it is forgotten
		if h.due != never {
			at = h.due
		}
		if t := (timer{at: at, start: h.Start}); t.before(next) {
			next = t
		}
	}
	return next
}

// Process implements pipeline.Operator.
func (s *Session) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if timed(r, out) {
		s.take(r, out)
		s.skip()
	}
}

// take puts a row into its session.
func (s *Session) take(r *pipeline.Row, out *pipeline.Out) {
	if s.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		s.entries.SetNow(out.Elapsed())
	}
	s.keyOf(0, r)
	entry, _ := s.entries.Get(s.key)
	w := Span{r.Time, r.Time + s.assign.gap}
	met := s.meeting(entry, w)
	was := s.next(s.list)
	for _, h := range met.heads {
		w = Union(w, h.Span)
	}
	if s.watermark >= w.End+s.c.LatenessMs {
		late(r, out)
		return
	}
	if !s.evaluate(r, out) {
		return
	}
	entry, h, err := s.join(entry, met, w)
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	key := s.key[startBytes:]
	c := s.cellOf(&s.nameA, entry, key, h)
	if len(met.heads) == 0 && s.c.TTL > 0 {
		s.begin(c)
	}
	s.add(c, r)
	if s.watermark >= h.End {
		h.due = never
		s.fire(h.Span, binary.LittleEndian.Uint32(c.entry), key, c, h.End-1, out)
		countFiring(c.entry)
	} else {
		h.due = s.nextDue(h, r.Time)
	}
	putHead(entry[h.at:], h)
	s.plan(key, entry, was)
}

// meet is where a row's window stands among the sessions of its key: those it meets, which lie side by side, and the place of the first.
type meet struct {
	at    int // bytes before it
	heads []sessionHead
}

func (s *Session) meeting(entry []byte, w Span) meet {
	all := s.parse(entry)
	first := 0
	for first < len(all) && !s.assign.Meets(all[first].Span, w) && all[first].Start < w.Start {
		first++
	}
	last := first
	for last < len(all) && s.assign.Meets(all[last].Span, w) {
		last++
	}
	return meet{at: first * s.oneBytes(), heads: all[first:last]}
}

// join makes one session of those met, or a new one, in the writable entry of s.key. Its due is the earliest early one that was pending,
// or never.
func (s *Session) join(entry []byte, met meet, w Span) (into []byte, h sessionHead, err error) {
	one := s.oneBytes()
	if len(met.heads) == 0 {
		h = sessionHead{Span: w, due: never, number: s.unused(), at: met.at}
		size := len(entry)
		var created bool
		if entry, created, err = s.entries.Upsert(s.key, size+one); err != nil {
			return nil, h, err
		}
		if created {
			s.there++
		}
		copy(entry[met.at+one:], entry[met.at:size])
		clear(entry[met.at : met.at+one])
		return entry, h, nil
	}
	if entry, _, err = s.entries.Upsert(s.key, len(entry)); err != nil {
		return nil, h, err
	}
	h = met.heads[0]
	pending := int64(never)
	key := s.key[startBytes:]
	dst := s.cellOf(&s.nameA, entry, key, h)
	for i, m := range met.heads {
		if m.due != never && m.due < m.End && (pending == never || m.due < pending) {
			pending = m.due
		}
		if i == 0 {
			continue
		}
		src := s.cellOf(&s.nameB, entry, key, m)
		fired := max(binary.LittleEndian.Uint32(dst.entry), binary.LittleEndian.Uint32(src.entry))
		s.merge(dst, src)
		binary.LittleEndian.PutUint32(dst.entry, fired)
		s.forget(src)
	}
	h.Span, h.due = w, pending
	if extra := len(met.heads) - 1; extra > 0 && !s.fault.unmerged {
		copy(entry[met.at+one:], entry[met.at+one+extra*one:])
		if entry, _, err = s.entries.Upsert(s.key, len(entry)-extra*one); err != nil {
			panic("BUG: a key that is there cannot be one too many: " + err.Error())
		}
	}
	return entry, h, nil
}

// unused is a number that no session of the key just parsed has.
func (s *Session) unused() uint32 {
	for n := uint32(0); ; n++ {
		taken := false
		for _, h := range s.list {
			taken = taken || h.number == n
		}
		if !taken {
			return n
		}
	}
}

// nextDue is when a session comes out next, after a row at t.
func (s *Session) nextDue(h sessionHead, t int64) int64 {
	due := h.End
	if s.c.EarlyMs > 0 {
		due = min(due, earlyDue(s.c.EarlyMs, t, s.watermark))
		if h.due != never {
			due = min(due, h.due)
		}
	}
	return due
}

// Watermark fires the sessions that are due and forgets those that take no more rows.
func (s *Session) Watermark(w int64, out *pipeline.Out) {
	s.watermark = max(s.watermark, w)
	for {
		s.skip()
		t, key := s.agenda.top()
		if t.at > w || t.at == pipeline.NoDeadline {
			return
		}
		s.key = append(appendStart(s.key[:0], 0), key...)
		entry, _ := s.entries.Get(s.key)
		entry, _, err := s.entries.Upsert(s.key, len(entry))
		if err != nil {
			panic("BUG: a key that is there cannot be one too many: " + err.Error())
		}
		s.happen(t, entry, w, out)
	}
}

// happen does what a timer of s.key is for.
func (s *Session) happen(t timer, entry []byte, w int64, out *pipeline.Out) {
	key := s.key[startBytes:]
	for _, h := range s.parse(entry) {
		c := s.cellOf(&s.nameA, entry, key, h)
		if h.Start != t.start {
			continue
		}
		if h.due == t.at {
			out.SetTimer(t.at, t.start, key)
			s.fire(h.Span, binary.LittleEndian.Uint32(c.entry), key, c, h.End-1, out)
			countFiring(c.entry)
			h.due = h.End
			if t.at == h.End {
				h.due = never
			}
			putHead(entry[h.at:], h)
		}
		if h.due == never && h.End+s.c.LatenessMs <= w {
			s.forget(c)
			s.cut(entry, h.at, t)
			return
		}
		break
	}
	s.plan(key, entry, t)
}

// cut takes a session out of the entry of s.key, whose timer was that one.
func (s *Session) cut(entry []byte, at int, was timer) {
	key, one := s.key[startBytes:], s.oneBytes()
	if len(entry) == one {
		s.entries.Delete(s.key)
		s.there--
		s.agenda.remove(key)
		return
	}
	copy(entry[at:], entry[at+one:])
	entry, _, err := s.entries.Upsert(s.key, len(entry)-one)
	if err != nil {
		panic("BUG: a key that is there cannot be one too many: " + err.Error())
	}
	s.plan(key, entry, was)
}

// Aged implements pipeline.Aging: it counts the keys whose sessions went by their TTL.
func (s *Session) Aged(out *pipeline.Out) {
	if gone := s.there - s.entries.Len(); gone > 0 {
		s.there -= gone
		out.Counters.Dropped += uint64(gone)
	}
	s.skip()
}

// skip forgets the next keys of the agenda as long as their TTL has left nothing of them, as a restore does. Each call of the operator ends
// with it, so that the next timer does not depend on where batches end.
func (s *Session) skip() {
	if state.LargeBuilt && s.agenda.far != nil {
		s.agenda.far.settle(s.c.TTL > 0)
		return
	}
	for s.c.TTL > 0 {
		t, key := s.agenda.top()
		if t.at == pipeline.NoDeadline {
			return
		}
		s.key = append(appendStart(s.key[:0], 0), key...)
		if _, ok := s.entries.Get(s.key); ok {
			return
		}
		s.agenda.remove(key)
	}
}

// Elapsed implements pipeline.Operator: these windows know event time only.
func (s *Session) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (s *Session) Timers() (elapsed, eventTime int64) {
	t, _ := s.agenda.top()
	return pipeline.NoDeadline, t.at
}
