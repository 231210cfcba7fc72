package exec

import (
	"context"
	"slices"

	"github.com/weirstream/weir/pipeline"
)

// flow is what a task keeps to work depth first where a step makes many rows: the step spills, which has the steps and sinks behind it work off what it has
// made so far, and goes on. DESIGN.md, "Many rows of one record". The task's goroutine owns it.
type flow struct {
	spills  func(unit int) error // of the present batch
	depth   int                  // spills within each other
	edges   []*edge              // that units make
	maker   map[*edge]int        // which one
	keepers []*edge              // edges whose rows are read at the end of the batch only, by a region or another task
	fault   flowFault
}

// flowFault is a mistake planted by a test, to show that the tests would find it.
type flowFault struct {
	hasty   bool // a merge takes a row though another one may come before it
	greedy  bool // slots are used again though rows are needed yet
	halfway bool // a row's emissions go on before the operator is through with it
	locked  bool // tables stay locked while others work
	undead  bool // dead letters are numbered as they come
}

// spilled carries the error of what is behind a step through its operator.
type spilled struct{ err error }

// letFlow gives the steps of a task their bound.
func (t *task) letFlow(b pipeline.Bound) {
	if b.Rows <= 0 || b.Bytes <= 0 {
		b = pipeline.BoundDefault
	}
	t.flow.maker = map[*edge]int{}
	for _, exports := range t.exports {
		t.flow.keepers = append(t.flow.keepers, exports...)
	}
	for i, u := range t.units {
		s, alone := u.(*step)
		if !alone {
			r := u.(*region)
			t.flow.keepers = append(t.flow.keepers, r.inputs...)
			for _, o := range r.outs {
				t.made(i, &o.edge)
			}
			continue
		}
		for p := range s.outputs {
			t.made(i, &s.outputs[p])
		}
		if s.arrival.planted() {
			continue
		}
		s.flow = t.flow.fault
		s.out.Spill(b, func() { t.spill(i, s) })
	}
}

func (t *task) made(unit int, e *edge) {
	t.flow.edges = append(t.flow.edges, e)
	t.flow.maker[e] = unit
}

// beginFlow makes ready for a batch.
func (t *task) beginFlow(ctx context.Context, in *Input) {
	t.flow.spills = func(unit int) error { return t.workOff(ctx, in, unit) }
	for _, e := range t.flow.edges {
		e.state = waiting
	}
	for _, u := range t.units {
		if s, alone := u.(*step); alone {
			s.stage = resting
		}
	}
	for _, s := range t.sinks {
		s.head = 0
	}
}

// settled notes that a unit is through with the batch.
func (t *task) settled(unit int) {
	if r, is := t.units[unit].(*region); is {
		for _, o := range r.outs {
			o.edge.state = whole
		}
	}
}

// spill has everything behind a step work off what the step has made. The step's tables are not locked meanwhile: a sink may wait for room in the outbox,
// and that for a checkpoint, whose encoder needs them.
func (t *task) spill(unit int, s *step) {
	s.leaveOpen(s.out.At)
	if !s.flow.locked {
		s.unlock()
	}
	err := t.flow.spills(unit)
	if !s.flow.locked {
		s.lock()
	}
	if err != nil {
		panic(spilled{err})
	}
}

// workOff is the spill of a unit: those behind it run over what there is, then the sinks.
func (t *task) workOff(ctx context.Context, in *Input, unit int) error {
	t.flow.depth++
	defer func() { t.flow.depth-- }()
	for _, u := range t.units[unit+1:] {
		s, alone := u.(*step)
		if !alone || slices.ContainsFunc(s.inputs, func(e *edge) bool { return e.state == waiting }) {
			continue // a region takes its batch in one piece, and who reads it waits for that
		}
		if err := s.run(in.Ticks); err != nil {
			return err
		}
	}
	if err := t.hand(ctx); err != nil {
		return err
	}
	if !t.workedOff(unit) && !t.flow.fault.greedy {
		t.units[unit].(*step).out.Undrained()
		return nil
	}
	t.show(func(e *tapEdge) bool { return e.step != nil && e.step.stage != resting && e.unit >= unit })
	t.drained(unit)
	return t.buryBefore(ctx, t.units[unit].(*step).out.At.Pos)
}

// workedOff tells whether nobody needs a row any more that a unit from that number on has made.
func (t *task) workedOff(unit int) bool {
	made := func(e *edge) bool {
		i, here := t.flow.maker[e]
		return here && i >= unit && e.state != waiting
	}
	for _, e := range t.flow.keepers {
		if made(e) && len(e.rows) > 0 {
			return false
		}
	}
	for _, u := range t.units[unit+1:] {
		if s, alone := u.(*step); alone {
			for i, e := range s.inputs {
				if made(e) && s.consumed(i) < len(e.rows) {
					return false
				}
			}
		}
	}
	return true
}

// consumed is how many rows of an input a step has worked off in this batch.
func (s *step) consumed(input int) int {
	if s.stage == resting {
		return 0
	}
	return s.heads[input]
}

// drained drops the rows of a unit and of those behind it, which all have been worked off. Their dead letters are kept, with slots of their own.
func (t *task) drained(unit int) {
	for _, u := range t.units[unit:] {
		s, alone := u.(*step)
		if !alone || s.stage == resting {
			continue
		}
		t.pending = append(t.pending, s.out.Dead...)
		clear(s.out.Dead)
		s.out.Dead = s.out.Dead[:0]
		for i, e := range s.inputs {
			if made, here := t.flow.maker[e]; here && made >= unit {
				s.heads[i] = 0
			}
		}
	}
	for i := range t.pending {
		if d := &t.pending[i]; !d.Own {
			d.Row.Slots, d.Own = slices.Clone(d.Row.Slots), true
		}
	}
	for _, s := range t.sinks {
		if made, here := t.flow.maker[s.input]; here && made >= unit {
			s.head = 0
		}
	}
	for _, u := range t.units[unit:] {
		if s, alone := u.(*step); alone && s.stage != resting {
			s.out.Drained()
			for p := range s.outputs {
				s.outputs[p].rows = nil
			}
		}
	}
}

// deadWaiting dead letters are worth numbering within a batch.
const deadWaiting = 256

// buryBefore numbers the dead letters before a position, to which every unit has come; the first of spills within each other only, since what spilled
// before it may stand at an earlier one.
func (t *task) buryBefore(ctx context.Context, at pipeline.Position) error {
	if t.dead == nil || t.flow.depth > 1 && !t.flow.fault.undead || len(t.pending) < deadWaiting && !t.flow.fault.undead {
		return nil
	}
	n := 0
	for _, d := range t.pending {
		if d.Pos < at || t.flow.fault.undead {
			n++
		}
	}
	return t.bury(ctx, n)
}

// spill hands on what was emitted when it is much.
func (s *step) spill() {
	if s.out.Full() {
		s.out.Spilling()
	}
}

// leaveOpen shows what was emitted so far as the beginning of the outputs; nothing more comes before from's position and phase.
func (s *step) leaveOpen(from pipeline.At) {
	for p := range s.outputs {
		s.outputs[p] = edge{rows: s.out.Ports[p], marks: s.marks, state: open, from: from}
	}
}

// goesOn tells whether more of the batch comes, and the place up to which everything is here.
func (s *step) goesOn() (upTo pipeline.At, more bool) {
	upTo = pipeline.At{Pos: ^pipeline.Position(0), Phase: pipeline.After}
	for _, e := range s.inputs {
		if e.state == open {
			more = true
			if c := comparePhase(e.from, upTo); c < 0 {
				upTo = pipeline.At{Pos: e.from.Pos, Phase: e.from.Phase}
			}
		}
	}
	return upTo, more
}

// certain tells whether the first row of an input comes next whatever open inputs bring yet. Within one place rows go by input; by deadline they are
// not always in order, so those of one position and phase wait for each other.
func (s *step) certain(in int) bool {
	at := s.merged[in].rows[s.heads[in]].At
	for i, e := range s.merged {
		if e.state != open || s.heads[i] < len(e.rows) || s.flow.hasty {
			continue
		}
		if c := comparePhase(at, e.from); c > 0 || c == 0 && !(at.Phase == pipeline.During && in < i) {
			return false
		}
	}
	return true
}

func comparePhase(a, b pipeline.At) int {
	a.Deadline, b.Deadline = 0, 0
	return a.Compare(b)
}
