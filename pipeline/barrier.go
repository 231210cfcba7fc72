package pipeline

import "github.com/weirstream/weir/pipeline/state"

// Barrier is checkpoint barrier n (Carbone et al., "Lightweight Asynchronous Snapshots for Distributed Dataflows", 2015).
// The journal reader puts it between two batches; a task aligns on it, freezes its tables and goes on.
type Barrier struct {
	ID       uint64 // the checkpoint's number; rises within a pipeline for ever
	Position Position
	Drain    bool // a last barrier: MaxWatermark was sent before it (stop --drain, end of replay)
}

// StatePart is one table of one step as it was at the barrier. A step that runs in instances gives a part for each, with the same UID and
// Spec: they hold different keys, and together they are the table.
type StatePart struct {
	UID    string // of the step
	Spec   state.Spec
	Frozen *state.Frozen
}

// SinkMark is the sequence a sink had reached at the barrier.
type SinkMark struct {
	UID        string
	Generation uint64
	Seq        uint64
	Chain      uint64 // chain hash over all results of the generation up to Seq (uplink/DESIGN.md)
}

// TaskSnapshot is what a task hands over at a barrier. The receiver encodes the parts in the background and ends every
// part with exactly one of Frozen.Commit and Frozen.Abort.
type TaskSnapshot struct {
	Task    string
	Barrier Barrier
	Parts   []StatePart
	Sinks   []SinkMark
}

// StateSource gives a restored checkpoint's entries back to the tasks.
type StateSource interface {
	// Entries calls f for each live entry of a table, each key once. It returns the spec that the entries were written under;
	// found is false when the checkpoint has no such table.
	Entries(uid, name string, f func(key, sub, val []byte) error) (spec state.Spec, found bool, err error)
	// Sinks are the marks at the checkpoint.
	Sinks() []SinkMark
	// Position is where the checkpoint stands: every record up to it is in the state.
	Position() Position
}

// WholeSource is a StateSource that gives all tables in one reading. Tables share what is read for them: one reading each costs as many times that.
type WholeSource interface {
	StateSource
	// Every asks table for each table of the checkpoint, which is told the spec that its entries were written under, and then calls what it gave for
	// each live entry, each key once; nil passes over the table.
	Every(table func(uid, name string, written state.Spec) (load func(key, sub, val []byte) error, err error)) error
}
