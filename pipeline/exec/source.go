package exec

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// source turns the journal's entries of one configured source into rows with event time, and makes its watermark.
// Its task's goroutine owns it. What it keeps over restarts is in one table.
type source struct {
	plan     *plan.Source
	lanes    []*decodeLane // the first decodes alone when there is little to do
	pool     *pool
	readings []reading // of the batch's entries, when all lanes decode
	out      *pipeline.Out
	output   edge
	clock    sourceClock
	table    *state.Table
	counts   SourceCounters
	resumed  bool // the first batch after a restore repeats the watermark
	saved    []byte
}

// SourceCounters are part of the ledger: received = tombstones + dead + rows.
type SourceCounters struct {
	Received   uint64 `json:"received"`
	Tombstones uint64 `json:"tombstones"`
	Dead       uint64 `json:"dead"`
	Rows       uint64 `json:"rows"`
	Stubs      uint64 `json:"stubs"`
}

// sourceClock is the event time of a source: pure bookkeeping, see DESIGN.md "Idle sources".
type sourceClock struct {
	started     bool
	idle        bool
	timeMax     int64 // ms, of accepted records
	lastElapsed int64 // ns, stamp of the last record (or of the first tick when there was none yet)
	watermark   int64
}

func newSource(p *plan.Source) *source {
	s := &source{plan: p, out: pipeline.NewOut("$source/"+p.Name, 1)}
	s.clock = sourceClock{timeMax: pipeline.MinWatermark, watermark: pipeline.MinWatermark, lastElapsed: -1}
	s.lanes = []*decodeLane{newDecodeLane(p, s.out)}
	return s
}

// run makes the rows and marks of one batch. Decoding may be divided; event time and watermark follow the order of the entries.
func (s *source) run(in *Input) error {
	s.out.Reset()
	ahead, err := s.decodeAhead(in)
	if err != nil {
		return err
	}
	marks := s.output.marks[:0]
	if s.resumed { // steps learn the watermark of the checkpoint before the first row, in a drain (which lies After First-1) too
		s.resumed = false
		marks = append(marks, pipeline.Mark{Pos: in.First - 1, Phase: pipeline.During, Idle: s.clock.idle, Watermark: s.clock.watermark})
	}
	ti := 0
	for i := range in.Entries {
		e := &in.Entries[i]
		for ; ti < len(in.Ticks) && in.Ticks[ti].Pos <= e.Pos; ti++ {
			marks = s.tick(in.Ticks[ti], marks)
		}
		if e.Source != s.plan.Name || e.Kind != pipeline.EntryMessage && e.Kind != pipeline.EntryStub {
			continue
		}
		if s.record(e, i, ahead) {
			if m, moved := s.clock.record(s.plan.Time, e.Stamp.Elapsed, s.lastTime()); moved {
				m.Pos = e.Pos
				marks = append(marks, m)
			}
		}
	}
	if in.Drain {
		s.clock.watermark = pipeline.MaxWatermark
		marks = append(marks, pipeline.Mark{Pos: in.Last, Phase: pipeline.After, Watermark: pipeline.MaxWatermark})
	}
	s.output = edge{rows: s.out.Ports[0], marks: marks}
	return nil
}

// lastTime is the event time of the row just emitted.
func (s *source) lastTime() int64 {
	rows := s.out.Ports[0]
	return rows[len(rows)-1].Time
}

// tick advances an idle source's watermark with the stamp.
func (s *source) tick(t pipeline.Tick, marks []pipeline.Mark) []pipeline.Mark {
	if s.clock.lastElapsed < 0 {
		s.clock.lastElapsed = t.Stamp.Elapsed
	}
	if m, moved := s.clock.tick(s.plan.Idle, s.plan.Time, t.Stamp.Elapsed); moved {
		m.Pos = t.Pos
		marks = append(marks, m)
	}
	return marks
}

// tick is the idle rule: pure.
func (c *sourceClock) tick(idle *plan.Idle, time *plan.Time, elapsed int64) (pipeline.Mark, bool) {
	if idle == nil || !idle.Advance || elapsed-c.lastElapsed < idle.AfterNs {
		return pipeline.Mark{}, false
	}
	before, was := c.watermark, c.idle
	c.idle = true
	if c.started && time != nil {
		c.watermark = max(c.watermark, c.timeMax-time.OutOfOrdernessMs+(elapsed-c.lastElapsed)/1e6)
	}
	return pipeline.Mark{Phase: pipeline.Idle, Idle: true, Watermark: c.watermark}, c.watermark != before || !was
}

// record moves the watermark behind an accepted record: pure.
func (c *sourceClock) record(time *plan.Time, elapsed, at int64) (pipeline.Mark, bool) {
	before, was := c.watermark, c.idle
	c.idle, c.lastElapsed = false, elapsed
	if time != nil && at != pipeline.NoTime {
		if !c.started || at > c.timeMax {
			c.timeMax = at
		}
		c.started = true
		c.watermark = max(c.watermark, c.timeMax-time.OutOfOrdernessMs)
	}
	return pipeline.Mark{Phase: pipeline.After, Watermark: c.watermark}, c.watermark != before || was
}

// record turns the i-th entry into a row, a tombstone or a dead letter; it tells whether a row came out. ahead: it was decoded already.
func (s *source) record(e *pipeline.Entry, i int, ahead bool) bool {
	s.counts.Received++
	s.out.At = pipeline.At{Pos: e.Pos, Phase: pipeline.During}
	if e.Kind == pipeline.EntryStub {
		s.counts.Stubs++
		s.refuse("quarantined", "the message was too large or its topic ill-formed; the payload holds what was kept of it", e)
		return false
	}
	if len(e.Payload) == 0 {
		s.counts.Tombstones++
		return false
	}
	var r reading
	if ahead {
		r = s.readings[i]
	} else {
		r = s.lanes[0].read(e)
	}
	if r.refused != nil {
		s.refuse(r.refused.reason, r.refused.detail, e)
		return false
	}
	s.counts.Rows++
	s.out.Emit(0, r.time, r.slots)
	return true
}

func (s *source) refuse(reason, detail string, e *pipeline.Entry) {
	s.counts.Dead++
	s.out.RefuseRaw(reason, detail, string(e.Topic), e.Payload)
}

// eventTime reads and checks the event time: a bad stamp refuses the record and leaves the watermark alone.
func eventTime(t *plan.Time, stamp pipeline.Stamp, slots []pipeline.Value) (ms int64, refusal string) {
	if t == nil {
		return pipeline.NoTime, ""
	}
	v := slots[t.Slot]
	if v.IsNull() {
		return 0, "the time field is missing or null"
	}
	ms, err := codec.ParseTime(v, t.Unit)
	if err != nil {
		return 0, err.Error()
	}
	if ms < t.MinMs || ms > t.MaxMs {
		return 0, fmt.Sprintf("event time %d ms is outside of the sane range [%d, %d]: wrong unit?", ms, t.MinMs, t.MaxMs)
	}
	if t.MaxAheadMs > 0 && stamp.Trusted && ms > stamp.Wall+t.MaxAheadMs {
		return 0, fmt.Sprintf("event time is %d ms ahead of the gateway's clock, allowed are %d", ms-stamp.Wall, t.MaxAheadMs)
	}
	return ms, ""
}

// sourceStateBytes is the size of the source's state: see FORMAT.md.
const sourceStateBytes = 1 + 1 + 3*8 + 5*8

func (s *source) spec() state.Spec {
	return state.Spec{Name: "source", Kind: state.Value, Type: "exec.source", Version: 1}
}

// save puts the state into the table when it changed: an idle pipeline has nothing dirty.
func (s *source) save() error {
	var b [sourceStateBytes]byte
	if s.clock.started {
		b[0] = 1
	}
	if s.clock.idle {
		b[1] = 1
	}
	for i, v := range []uint64{uint64(s.clock.timeMax), uint64(s.clock.lastElapsed), uint64(s.clock.watermark),
		s.counts.Received, s.counts.Tombstones, s.counts.Dead, s.counts.Rows, s.counts.Stubs} {
		binary.LittleEndian.PutUint64(b[2+8*i:], v)
	}
	if string(b[:]) == string(s.saved) {
		return nil
	}
	s.saved = append(s.saved[:0], b[:]...)
	s.table.Lock()
	defer s.table.Unlock()
	return s.table.Put(nil, b[:])
}

func (s *source) restored() error {
	b, ok := s.table.Get(nil)
	if !ok {
		return nil
	}
	if len(b) != sourceStateBytes {
		return fmt.Errorf("%w: source %s has %d bytes of state, want %d", ErrState, s.plan.Name, len(b), sourceStateBytes)
	}
	s.saved = append(s.saved[:0], b...)
	at := func(i int) uint64 { return binary.LittleEndian.Uint64(b[2+8*i:]) }
	s.clock = sourceClock{started: b[0] == 1, idle: b[1] == 1, timeMax: int64(at(0)), lastElapsed: int64(at(1)), watermark: int64(at(2))}
	s.counts = SourceCounters{Received: at(3), Tombstones: at(4), Dead: at(5), Rows: at(6), Stubs: at(7)}
	s.resumed = true
	return nil
}

// nextIdle is the elapsed time at which the idle rule next moves the watermark to eventTime, NoDeadline if never.
func (c *sourceClock) nextIdle(idle *plan.Idle, time *plan.Time, eventTime int64) int64 {
	if idle == nil || !idle.Advance || time == nil || eventTime == pipeline.NoDeadline || c.lastElapsed < 0 {
		return pipeline.NoDeadline
	}
	if c.idle && (!c.started || c.watermark >= eventTime) {
		return pipeline.NoDeadline // what waits, waits for another source
	}
	due := c.lastElapsed + idle.AfterNs
	if c.started && c.watermark < eventTime && eventTime < int64(math.MaxInt64)/2 {
		wait := eventTime - (c.timeMax - time.OutOfOrdernessMs)
		if wait < int64(math.MaxInt64)/2_000_000 {
			due = max(due, c.lastElapsed+wait*1e6)
		}
	}
	return due
}
