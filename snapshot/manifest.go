package snapshot

import (
	"encoding/hex"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Incarnation is the fencing token of the agent that wrote a checkpoint (RULES 27). Compared as a pair.
type Incarnation struct {
	Major, Minor uint32
}

// String is "major.minor".
func (i Incarnation) String() string { return fmt.Sprintf("%d.%d", i.Major, i.Minor) }

// UUID names a pipeline for ever: a deleted and re-created pipeline has another one and inherits nothing.
type UUID [16]byte

// String is 32 hexadecimal digits.
func (u UUID) String() string { return hex.EncodeToString(u[:]) }

// Behaviour is the version of what an operator does with its input. Streams with `commit: immediate` open a new generation when it
// differs at a restore.
type Behaviour struct {
	UID     string
	Version uint64
}

// TableMeta is a table of the checkpoint. Entries that checkpoints before Since wrote do not belong to it: the table was
// new, or its type or version changed, at checkpoint Since.
type TableMeta struct {
	UID   string // of the step
	Spec  state.Spec
	Since uint64
}

// OutboxRange is the part of a stream's results that the checkpoint relies on (RULES 10): (Confirmed, Last] of a generation must be whole
// in the outbox or confirmed upstream, else the checkpoint is not valid.
type OutboxRange struct {
	UID        string // of the sink
	Generation uint64
	Confirmed  uint64 // held upstream when the outbox was sealed
	Last       uint64 // last sequence at the barrier
	Chain      uint64 // chain hash at Confirmed
}

// FrameRef names one sorted run of one task's delta: Count chunks from First on. In store `log` First is the position of the
// first chunk in the log; in store `bbolt` it is the number of the first chunk within the checkpoint.
type FrameRef struct {
	Checkpoint uint64 // that wrote it; a checkpoint's manifest names those of its forebears since the base too
	Task       uint32 // index in Manifest.Tasks
	First      uint64
	Count      uint32
	Entries    uint64
	Bytes      uint64 // of all chunks, before compression
	CRC        uint32 // crc32c over all chunks in order
}

// BaseRef names a base: the whole state at a checkpoint as one sorted run. The zero value is the empty state.
type BaseRef struct {
	Checkpoint uint64 // whose state it is
	Serial     uint64 // file or bucket number; 0: no base
	Entries    uint64
	Bytes      uint64 // on flash
	Unpacked   uint64 // before compression
	SHA256     [32]byte
}

// Manifest describes one checkpoint completely. Its durability is the commit of the checkpoint.
type Manifest struct {
	Pipeline    UUID
	ID          uint64 // the barrier's number; never used twice within a pipeline
	Parent      uint64 // the checkpoint whose frames this one goes on from; 0: none
	Oldest      uint64 // checkpoints below it are pruned from the moment this manifest is durable (RULES 12)
	Position    pipeline.Position
	PlanHash    [32]byte
	Generation  uint64
	Incarnation Incarnation
	WallMs      int64 // Unix ms when it was written; data, not order
	Trusted     bool  // whether that clock was known to be right
	Idle        bool  // nothing but the position differs from Parent
	Tasks       []string
	Behaviours  []Behaviour
	Tables      []TableMeta
	Sinks       []pipeline.SinkMark
	Outbox      []OutboxRange
	Ledger      []byte // opaque to this package
	Base        BaseRef
	Frames      []FrameRef // oldest first: a later one wins
}

// Table finds a table by its identity.
func (m *Manifest) Table(uid, name string) (TableMeta, bool) {
	for _, t := range m.Tables {
		if t.UID == uid && t.Spec.Name == name {
			return t, true
		}
	}
	return TableMeta{}, false
}

// DeltaBytes is the size of all frames, and DeltaCheckpoints how many checkpoints wrote them: the two facts that
// decide on a rebase.
func (m *Manifest) DeltaBytes() (bytes uint64, checkpoints int) {
	last := uint64(0)
	for _, f := range m.Frames {
		bytes += f.Bytes
		if f.Checkpoint != last {
			checkpoints++
			last = f.Checkpoint
		}
	}
	return bytes, checkpoints
}

// sameEntries tells whether entries written under a may go on living in a table of b.
func sameEntries(a, b state.Spec) bool {
	return a.Kind == b.Kind && a.Type == b.Type && a.Version == b.Version
}
