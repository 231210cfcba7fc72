package pipeline

// Phase is the place of a row within its position: what time made happen before the record, the record itself, what
// the record's own watermark advance made happen after it.
type Phase uint8

const (
	// Before: elapsed-time timers whose deadline the position's stamp has reached.
	Before Phase = iota
	// Idle: event-time timers that the watermark of idle sources passed as the stamp went on.
	Idle
	// During: rows made from the record itself.
	During
	// After: event-time timers that the watermark passed because of the record.
	After
)

// At is where in the total order a row stands within one step's output: (Pos, Phase, Deadline), then plan order of
// the step, key bytes and emission index. See DESIGN.md, "Total order".
type At struct {
	Pos      Position
	Deadline int64 // Before: elapsed ns of the timer; Idle and After: event time ms of the timer; During: 0
	Phase    Phase
}

// Compare orders two places: -1, 0 or 1.
func (a At) Compare(b At) int {
	switch {
	case a.Pos != b.Pos:
		if a.Pos < b.Pos {
			return -1
		}
		return 1
	case a.Phase != b.Phase:
		if a.Phase < b.Phase {
			return -1
		}
		return 1
	case a.Deadline != b.Deadline:
		if a.Deadline < b.Deadline {
			return -1
		}
		return 1
	}
	return 0
}

// Row is one element on an edge of the dataflow. Slots belong to the schema of the edge (fixed by the plan).
type Row struct {
	At
	// Time is the event time in Unix milliseconds, NoTime when there is none.
	Time int64
	// Slots are the fields in schema order. They are immutable once emitted: several edges share them.
	Slots []Value
}

// Mark is one advance of time on an edge, in order of At. The watermark holds behind the rows up to At: a row at the
// same place was still judged by the watermark before.
type Mark struct {
	Pos       Position
	Phase     Phase // Idle for advances by elapsed time, After for those that a record caused
	Idle      bool  // every source behind this edge is idle: a merge leaves the edge out of its minimum
	Watermark int64
}

// Tick is one advance of the journal's clock: Stamp holds from Pos on. One column is shared by all tasks of a batch.
type Tick struct {
	Pos   Position
	Stamp Stamp
}
