package pipeline

import "github.com/weirstream/weir/pipeline/state"

// Operator is one step of a pipeline at run time. The engine calls it from one goroutine, in the total order; it never
// reads a clock, starts no goroutine and keeps what must survive in its state tables alone. Everything else (timer
// indexes, caches) is rebuilt in Restored.
type Operator interface {
	// Open is called once, before any state is restored, to declare the tables.
	Open(tables Tables) error
	// Restored is called once after the tables have been filled (or found empty) and before the first row.
	Restored() error
	// Process handles one row that came in on the given input (index in plan order). r and what it refers to must not be
	// written; r is valid until the end of the batch; text in state tables must be copied by the operator.
	Process(input int, r *Row, out *Out)
	// Watermark says that event time reached w (ms): every timer at or below w fires, in (deadline, window start, key
	// bytes) order. Calls never go back.
	Watermark(w int64, out *Out)
	// Elapsed says that the journal's clock reached now, before the row at out.At.Pos. Timers with deadline <= now fire in
	// (deadline, key bytes) order; the operator names the timer behind what it emits with out.SetTimer.
	Elapsed(now Stamp, out *Out)
	// Timers gives the earliest waiting deadlines: elapsed ns and event-time ms, NoDeadline for none. It is cheap.
	Timers() (elapsed, eventTime int64)
}

// Aging is an Operator that counts what its tables lose to their TTL, and forgets the timers of it.
type Aging interface {
	// Aged is called behind each batch, when the tables know the time. What it does depends on the tables alone.
	Aged(out *Out)
}

// Evolving is an Operator that reads tables which an earlier build wrote under a lower version of their type.
type Evolving interface {
	// Older gives what puts an entry of a table, as that version wrote it, into the operator's tables, with LoadChanged: it is then written anew with the next
	// checkpoint, which takes nothing over from one of another version. nil: the version is not read. It is called behind Open and before Restored.
	Older(table string, version uint16) (load func(key, sub, val []byte) error)
}

// Tables hands an operator its state. The pair (uid of the step, name) is the identity of a table across versions.
type Tables interface {
	Table(spec state.Spec) (*state.Table, error)
}

// Stateless gives the parts of Operator that an operator without state and timers does not need.
type Stateless struct{}

func (Stateless) Open(Tables) error      { return nil }
func (Stateless) Restored() error        { return nil }
func (Stateless) Watermark(int64, *Out)  {}
func (Stateless) Elapsed(Stamp, *Out)    {}
func (Stateless) Timers() (int64, int64) { return NoDeadline, NoDeadline }

func (Stateless) timeless() {}

// IsTimeless tells whether op embeds Stateless: the engine then spares it the calls that time makes.
func IsTimeless(op Operator) bool {
	_, ok := op.(interface{ timeless() })
	return ok
}
