package exec

import (
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// step runs one operator over one batch at a time, in the total order. Its task's goroutine owns it.
type step struct {
	uid      string
	op       pipeline.Operator
	timeless bool
	aging    pipeline.Aging // nil: nothing that op counts has a TTL
	ages     bool           // a table has a TTL: what is restored is judged by the time that was reached
	inputs   []*edge        // set by the task for each batch
	merged   []*edge        // inputs as the walk takes them; the same, but for a planted fault
	arrival  arrival
	merge    *merger // nil with one input
	out      *pipeline.Out
	outputs  []edge // one per port, refilled per batch
	tables   []*state.Table
	newTable func(uid string, spec state.Spec) *state.Table // nil: in memory
	counters *state.Table
	saved    pipeline.Counters
	heads    []int
	marks    []pipeline.Mark // of the batch
	ti, mi   int             // ticks and marks of the batch that have been applied
	stage    stepStage
	flow     flowFault // planted by tests
	stamp    pipeline.Stamp
	// ticked is the elapsed time up to which timers have fired. Batches and restarts repeat a stamp; only the first record
	// of a stamp fires timers, else the results would depend on the cuts.
	ticked int64
	// watermark is the step's event time now; it is rebuilt from the marks, which start from the sources' state.
	watermark int64
	row       *pipeline.Row // that the operator works on; nil: none, a timer
	skips     []Poison      // sorted: the operator panics at them, they become dead letters
	nth       ordinal       // of the row
	tied      bool          // an instance of a keyed region: see instance.go
}

// stepStage is how far a step is in a batch.
type stepStage uint8

const (
	resting stepStage = iota
	working           // it has worked off some of its input
	done
)

func newStep(uid string, op pipeline.Operator, inputs, ports int) *step {
	s := &step{
		uid: uid, op: op, timeless: pipeline.IsTimeless(op), inputs: make([]*edge, inputs),
		out: pipeline.NewOut(uid, ports), outputs: make([]edge, ports), heads: make([]int, inputs),
		watermark: pipeline.MinWatermark, ticked: -1,
	}
	if inputs > 1 {
		s.merge = newMerger(inputs)
	}
	return s
}

// run works off what there is of the batch: all of it when the inputs are whole, else the rows in front of which no other can come. A panic or an
// error of the operator comes back as an error that names the step: it fails the region, and nothing that the row or timer has made by then is emitted.
func (s *step) run(ticks []pipeline.Tick) (err error) {
	if s.stage == done { // while a step before it spilled
		return nil
	}
	defer func() {
		if r := recover(); r != nil {
			err = s.failed(r, debug.Stack())
		}
	}()
	s.lock()
	defer s.unlock()
	if s.stage == resting {
		s.begin()
	}
	time := !s.timeless || s.merge != nil || len(s.skips) > 0
	if time {
		s.walk(ticks)
	} else {
		s.pass()
	}
	upTo, more := s.goesOn()
	if time {
		s.advance(ticks, upTo)
	}
	if more {
		s.leaveOpen(upTo)
		return nil
	}
	s.finish(s.marks)
	s.stage = done
	return nil
}

// begin starts a batch. All inputs have their marks.
func (s *step) begin() {
	s.out.Reset()
	clear(s.heads)
	s.ti, s.mi, s.stage = 0, 0, working
	s.out.InTimer(s.flow.halfway)
	s.merged = s.arrival.delay(s.inputs)
	s.marks = s.inputs[0].marks
	if s.merge != nil {
		s.marks = s.merge.mergeMarks(s.inputs)
	}
}

// pass is walk for an operator to which time means nothing.
func (s *step) pass() {
	rows := s.inputs[0].rows[s.heads[0]:]
	s.out.Counters.In += uint64(len(rows))
	s.heads[0] += len(rows)
	for i := range rows {
		r := &rows[i]
		s.out.At, s.row = r.At, r
		s.nth.count(r)
		s.op.Process(0, r, s.out)
		s.row = nil
		s.spill()
	}
}

func (s *step) lock() {
	for _, t := range s.tables {
		t.Lock()
	}
}

func (s *step) unlock() {
	for _, t := range s.tables {
		t.Unlock()
	}
}

// finish hands the outputs over.
func (s *step) finish(marks []pipeline.Mark) {
	if s.aging != nil {
		s.aging.Aged(s.out)
	}
	for p := range s.outputs {
		s.outputs[p] = edge{rows: s.out.Ports[p], marks: marks}
		if s.tied {
			s.outputs[p].ties = s.out.PortTies(p)
		}
	}
}

// walk interleaves the columns (ticks, marks) with the merged rows.
func (s *step) walk(ticks []pipeline.Tick) {
	for in := s.next(); in >= 0; in = s.next() {
		r := &s.merged[in].rows[s.heads[in]]
		s.heads[in]++
		s.advance(ticks, r.At)
		if r.Phase == pipeline.Before { // own timers due before the one that made this row
			s.elapsed(r.Pos, pipeline.Stamp{Elapsed: r.Deadline - 1, Wall: s.stamp.Wall, Trusted: s.stamp.Trusted})
		}
		s.out.At = r.At
		s.out.Counters.In++
		s.nth.count(r)
		s.process(in, r)
		s.spill()
	}
}

// next is the input with the next row, -1 when there is none or another one may come before it.
func (s *step) next() int {
	if s.merge == nil {
		if s.heads[0] < len(s.merged[0].rows) {
			return 0
		}
		return -1
	}
	in := nextRow(s.merged, s.heads)
	if in < 0 || !s.certain(in) {
		return -1
	}
	return in
}

// advance applies every tick and mark that lies before a row at place `at`. A tick of position p is applied after the
// `before` rows of p (elapsed timers are interleaved by deadline) and before everything else there; a mark after the rows
// of its own place.
func (s *step) advance(ticks []pipeline.Tick, at pipeline.At) {
	s.ti, s.mi = s.advanceFrom(ticks, s.marks, s.ti, s.mi, at)
}

func (s *step) advanceFrom(ticks []pipeline.Tick, marks []pipeline.Mark, ti, mi int, at pipeline.At) (int, int) {
	for {
		tickDue := ti < len(ticks) && (ticks[ti].Pos < at.Pos || ticks[ti].Pos == at.Pos && at.Phase > pipeline.Before)
		markDue := mi < len(marks) && (marks[mi].Pos < at.Pos || marks[mi].Pos == at.Pos && marks[mi].Phase < at.Phase)
		if tickDue && markDue && marks[mi].Pos < ticks[ti].Pos {
			tickDue = false
		}
		switch {
		case tickDue:
			ti++
			s.tick(ticks[ti-1])
		case markDue:
			mi++
			s.mark(marks[mi-1])
		default:
			return ti, mi
		}
	}
}

func (s *step) tick(t pipeline.Tick) {
	s.stamp, s.out.Now = t.Stamp, t.Stamp
	if t.Stamp.Elapsed > s.ticked { // batches and restarts repeat a stamp: it counts once
		s.ticked = t.Stamp.Elapsed
		if c, ok := s.op.(pipeline.Clocked); ok {
			c.Tick(t.Stamp)
		}
		s.elapsed(t.Pos, t.Stamp)
	}
	for _, table := range s.tables {
		table.SetNow(t.Stamp.Elapsed)
	}
}

func (s *step) elapsed(pos pipeline.Position, now pipeline.Stamp) {
	if due, _ := s.op.Timers(); due > now.Elapsed {
		return
	}
	s.out.At = pipeline.At{Pos: pos, Phase: pipeline.Before}
	if s.tied {
		s.out.CauseTimers()
	}
	s.out.InTimer(true)
	s.op.Elapsed(now, s.out)
	s.out.InTimer(false)
}

func (s *step) mark(m pipeline.Mark) {
	if m.Watermark <= s.watermark {
		return
	}
	s.watermark = m.Watermark
	s.out.At = pipeline.At{Pos: m.Pos, Phase: m.Phase}
	if s.tied {
		s.out.CauseTimers()
	}
	s.out.InTimer(true)
	s.op.Watermark(m.Watermark, s.out)
	s.out.InTimer(false)
}
