// Package plan turns the pipelines of a config into checked graphs: schemas with slots, steps in plan order, tasks.
// What it refuses, it refuses with file, line and column before anything is touched.
package plan

import (
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

// Graph is a checked pipeline, ready for pipeline/exec (which the lead writes against exactly these fields).
type Graph struct {
	Name    string
	Sources []*Source
	Steps   []*Step // in plan order: topological, ties by place in the config
	Sinks   []*Sink
	Tasks   []Task
	Hash    [32]byte // over the canonical meaning
	// Parallelism is in how many instances keyed regions run, at most pipeline.KeyGroups; 0 is 1, ParallelismAuto one per core. It shows
	// neither in the results nor in the hash.
	Parallelism int
}

// ParallelismAuto as Parallelism: one instance per core of the machine that runs it.
const ParallelismAuto = -1

// Ref names an edge: output Port of a step, or the one output of a source when Step < 0.
type Ref struct {
	Source int
	Step   int
	Port   int
}

// Source is one source as this pipeline reads it.
type Source struct {
	Name     string
	Width    int            // number of slots of its rows
	Decoders []TopicDecoder // tried in order; the first whose Topic matches decodes
	Time     *Time          // nil: rows have no event time
	TimeSlot int            // slot of $time, the parsed event time in ms; -1: not used
	Idle     *Idle          // nil: hold
	Captures []Capture
	Meta     []MetaSlot
	Filter   string // MQTT filter that it subscribes to
	QoS      int
	Columns  []Column // what its rows hold, in slot order, for the explanation
}

// TopicDecoder decodes the messages of the topics that match a filter; "" matches all.
type TopicDecoder struct {
	Topic string
	New   func() codec.Decoder
	As    string // json, cbor, text, number, bytes, csv, influx, sparkplug
	// Params is the canonical form of what else was configured, "" for nothing.
	Params string
	// RebirthEveryMs: wishes of the decoder are sent to its nodes, at most one per node in this time; 0: they are not.
	RebirthEveryMs int64
	// Ordered: what the decoder makes of a message depends on those before it; then messages are decoded one by one.
	Ordered bool
}

// Time says where a row's event time is and what is accepted, in ms.
type Time struct {
	Slot             int
	Unit             codec.Unit
	OutOfOrdernessMs int64
	MaxAheadMs       int64 // 0: no guard
	MinMs, MaxMs     int64 // sane range
	// By are the slots of the key that has a watermark of its own, at most KeysMax of them at once; none: the source has one.
	By      []int
	KeysMax int
	// Local reads local times: those of unit Local, and of RFC3339 where the text has no zone; nil: such are refused.
	Local *codec.Local
}

// Idle is the idle rule (pipeline/DESIGN.md).
type Idle struct {
	AfterNs int64
	Advance bool
}

// Capture takes a level of the topic (0 = first) into a slot.
type Capture struct{ Level, Slot int }

// MetaSlot puts a $field into a slot.
type MetaSlot struct {
	Name string // one of the Meta constants
	Slot int
}

// The meta fields besides $time (TimeSlot).
const (
	MetaTopic    = "$topic"
	MetaReceived = "$received" // wall ms at which the journal took the record
	MetaQoS      = "$qos"
	MetaRetain   = "$retain"
	MetaSource   = "$source"
	MetaPosition = "$position"
)

// Step is one operator.
type Step struct {
	UID           string
	Kind          string
	Inputs        []Ref
	Ports         int
	PortNames     []string // "" for the one that the step's own name means
	Width         int
	New           func() pipeline.Operator
	Deterministic bool
	Behaviour     int
	Stateful      bool
	// Was is the uid under which the state was saved earlier, "" for the same.
	Was string
	// Params is the canonical form of what was configured: steps with equal Params do the same. For evolution.
	Params string
	// Columns are those of port 0, nil where the rows of the input go on.
	Columns []Column
	// Clockless are the inputs whose watermarks play no part: the step's is the minimum of the others. nil: none.
	Clockless []bool
	// Names are the names of the slots of each port's rows, "" for one without: for who looks at rows (weir tap). They mean nothing to the run.
	Names [][]string
	// Added are the columns that the step adds to the rows of the input, or that stand for fields of it.
	Added []Column
	// Keyed tells how the step may be divided by key; nil: it may not.
	Keyed *Keyed
	// Stateless: neither state nor time nor a second input; it may run wherever its rows are.
	Stateless bool
	// Narrow: at most one row comes out for each that comes in, on all ports together, and none from a timer.
	Narrow bool
	// Carries says, per port, which slot of the input each slot of the output is, -1 for none; nil: not known.
	Carries [][]int
}

// Sink is one output stream.
type Sink struct {
	UID     string
	From    Ref
	Columns []codec.Column
	Whole   int           // slot of the whole document, -1: none
	Table   []TableColumn // of a postgres target
	Points  []PointColumn // of an influx target
	// Commit is checkpoint, immediate or at-least-once (the pipeline's mode).
	Commit string
	// Deterministic: every step before gives the same at each replay. Else exactly once holds only from the newest
	// checkpoint (RULES 14).
	Deterministic bool
	// Spec holds the target and what the sender needs: priority, limits.
	Spec *SinkSpec
}

// Task is a set of sources, steps and sinks that run in one goroutine. The last task of a graph gets the dead letters.
// Tasks are in plan order: a task reads only from earlier ones.
type Task struct {
	Name                  string
	Sources, Steps, Sinks []int // indexes into the graph, each list in plan order
	Regions               []Region
}
