package exec

import (
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// source turns the journal's entries of one configured source into rows with event time, and makes its watermark.
// Its task's goroutine owns it. What it keeps over restarts is in one table.
type source struct {
	plan     *plan.Source
	lanes    []*decodeLane // one per worker; the first decodes alone what was not decoded ahead
	scratch  scratch       // where it does
	readings []reading     // of the batch's entries, when they were decoded ahead; else nil
	out      *pipeline.Out
	groups   []uint8 // of the rows' keys, when the lanes find them
	output   edge
	clock    sourceClock
	keys     *keyClocks // nil without watermark_by
	table    *state.Table
	counts   SourceCounters
	resumed  bool // the first batch after a restore repeats the watermark
	saved    []byte
}

// SourceCounters are part of the ledger: received + split = tombstones + dead + rows.
type SourceCounters struct {
	// Received are messages; Split are the records of their payloads beyond the first of each.
	Received   uint64 `json:"received"`
	Split      uint64 `json:"split"`
	Tombstones uint64 `json:"tombstones"`
	Dead       uint64 `json:"dead"`
	Rows       uint64 `json:"rows"`
	Stubs      uint64 `json:"stubs"`
}

func newSource(p *plan.Source) *source {
	s := &source{plan: p, out: pipeline.NewOut("$source/"+p.Name, 1)}
	s.clock = sourceClock{timeMax: pipeline.MinWatermark, watermark: pipeline.MinWatermark, lastElapsed: -1, moved: -1}
	s.lanes, s.scratch = []*decodeLane{newDecodeLane(p)}, newScratch(s.out)
	s.lanes[0].into(&s.scratch)
	if p.Time != nil && len(p.Time.By) > 0 {
		s.keys = newKeyClocks(p.Time.By, p.Time.KeysMax)
	}
	return s
}

// tell has the decoders' wishes told.
func (s *source) tell(ask func(*plan.Source, *plan.TopicDecoder, pipeline.Position, codec.Wish)) {
	if ask != nil {
		s.lanes[0].ask = func(d *plan.TopicDecoder, pos pipeline.Position, w codec.Wish) { ask(s.plan, d, pos, w) }
	}
}

// run makes the rows and marks of one batch. Decoding may have been done ahead; event time and watermark follow the order of the entries.
// A panic of a decoder is an error that names the record.
func (s *source) run(in *Input) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.lanes[0].failed(r, debug.Stack())
		}
	}()
	if state.LargeBuilt && s.keys != nil && s.keys.far != nil { // a checkpoint's encoder may be at it
		s.table.Lock()
		defer s.table.Unlock()
	}
	s.out.Reset()
	s.groups = s.groups[:0]
	s.scratch.forget()
	s.lanes[0].into(&s.scratch)
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
		if m, moved := s.message(e, i); moved {
			marks = append(marks, m)
		}
	}
	if in.Drain {
		s.clock.watermark = pipeline.MaxWatermark
		marks = append(marks, pipeline.Mark{Pos: in.Last, Phase: pipeline.After, Watermark: pipeline.MaxWatermark})
	}
	s.output = edge{rows: s.out.Ports[0], marks: marks}
	if s.lanes[0].key != nil {
		s.output.groups = s.groups
	}
	return nil
}

// shrink lets go of what a burst has left; between batches.
func (s *source) shrink() {
	s.out.Shrink()
	s.output, s.groups = edge{}, nil
}

// tick advances an idle source's watermark with the stamp.
func (s *source) tick(t pipeline.Tick, marks []pipeline.Mark) []pipeline.Mark {
	if s.clock.lastElapsed < 0 {
		s.clock.lastElapsed = t.Stamp.Elapsed
	}
	before := s.clock.watermark
	if s.keys != nil && s.plan.Idle != nil {
		if heard, some := s.keys.heard(); some && t.Stamp.Elapsed-heard >= s.plan.Idle.AfterNs {
			s.clock.moved = t.Stamp.Elapsed
		}
		s.clock.watermark = s.keys.expire(t.Stamp.Elapsed-s.plan.Idle.AfterNs, s.plan.Time.OutOfOrdernessMs, before)
	}
	m, moved := s.clock.tick(s.plan.Idle, s.plan.Time, t.Stamp.Elapsed)
	if !moved && s.clock.watermark != before { // keys went idle, others are left
		m, moved = pipeline.Mark{Phase: pipeline.Idle, Idle: s.clock.idle, Watermark: s.clock.watermark}, true
	}
	if moved {
		m.Pos = t.Pos
		marks = append(marks, m)
	}
	return marks
}

// message turns the i-th entry into rows, dead letters or a tombstone. moved: the mark goes behind it. All records of a
// message stand at its position and are judged by the watermark before it; what they do to the watermark is one mark.
func (s *source) message(e *pipeline.Entry, i int) (mark pipeline.Mark, moved bool) {
	s.counts.Received++
	s.out.At = pipeline.At{Pos: e.Pos, Phase: pipeline.During}
	if e.Kind == pipeline.EntryStub {
		s.counts.Stubs++
		s.refuse("quarantined", "the message was too large or its topic ill-formed; the payload holds what was kept of it", e.Topic, e.Payload)
		return mark, false
	}
	if len(e.Payload) == 0 {
		s.counts.Tombstones++
		return mark, false
	}
	var r reading
	if s.readings != nil {
		r = s.readings[i]
	} else {
		r = s.lanes[0].read(e)
	}
	if r.odd == nil {
		moved = s.record(e, &r, e.Payload)
	} else {
		moved = s.unusual(e, r.odd)
	}
	return s.clock.mark(e.Pos), moved
}

// unusual refuses a message, or emits what a payload of several records holds.
func (s *source) unusual(e *pipeline.Entry, o *odd) (moved bool) {
	switch {
	case o.reason != "":
		s.refuse(o.reason, o.detail, e.Topic, e.Payload)
		return false
	case len(o.parts) == 0:
		s.counts.Tombstones++
		return false
	}
	s.counts.Split += uint64(len(o.parts) - 1)
	for i := range o.parts {
		p := &o.parts[i]
		if p.odd != nil {
			s.refuse(p.odd.reason, p.odd.detail, e.Topic, p.raw)
		} else if s.record(e, &p.reading, p.raw) {
			moved = true
		}
	}
	return moved
}

// record emits a row, or refuses it; it tells whether the watermark moved. raw is what a dead letter keeps.
func (s *source) record(e *pipeline.Entry, r *reading, raw []byte) (moved bool) {
	if s.keys != nil {
		if refusal := s.keys.record(r.slots, r.time, e.Stamp.Elapsed); refusal != "" {
			s.refuse("max_keys", refusal, e.Topic, raw)
			return false
		}
	}
	s.counts.Rows++
	s.out.Emit(0, r.time, r.slots)
	if s.lanes[0].key != nil {
		s.groups = append(s.groups, r.group)
	}
	return s.clock.record(s.plan.Time, e.Stamp.Elapsed, r.time, s.keys)
}

func (s *source) refuse(reason, detail string, topic, raw []byte) {
	s.counts.Dead++
	s.out.RefuseRaw(reason, detail, string(topic), raw)
}
