package pipeline

import (
	"context"
	"errors"
)

// EntryKind is the kind of a journal record. Each record, of whatever kind, takes one Position.
type EntryKind uint8

const (
	// EntryMessage is a PUBLISH that the broker handed over.
	EntryMessage EntryKind = 1
	// EntryStub stands for a message that was too large or had an ill-formed topic: hash, length and head of the payload.
	EntryStub EntryKind = 2
	// EntryRelease is a PUBREL of a live packet id (RULES 3, 7).
	EntryRelease EntryKind = 3
	// EntrySession says that the broker has (or may have) a fresh session: every older packet id is void (RULES 5).
	EntrySession EntryKind = 4
	// EntrySubscribed says that the broker granted exactly the filters in Payload (encoded by pipeline/mqtt).
	EntrySubscribed EntryKind = 5
	// EntryTick carries only its frame's stamp: time went on and nothing arrived.
	EntryTick EntryKind = 6
	// EntryGap says that data may be missing here: lost session, damaged range. Payload is a UTF-8 sentence.
	EntryGap EntryKind = 7
	// EntryCarry repeats a dedup table entry whose record is about to be trimmed (DESIGN.md §6). Payload is pipeline/mqtt's.
	EntryCarry EntryKind = 8
	// EntryClock records a step of the wall clock; Payload is a UTF-8 sentence.
	EntryClock EntryKind = 9
	// EntryForget drops the dedup entries that an unknown session did not show again (RULES 6). Payload is pipeline/mqtt's.
	EntryForget EntryKind = 10
	// EntryAnchor lets the rebuild of a dedup table begin at a position near the end. Payload is pipeline/mqtt's.
	EntryAnchor EntryKind = 11
)

// Entry is one journal record as written and as read. On reading, Topic and Payload alias an immutable block.
type Entry struct {
	Pos      Position // set on reading, and by AppendAll
	Stamp    Stamp    // set on reading
	Kind     EntryKind
	QoS      uint8
	Retain   bool
	Dup      bool
	PacketID uint16
	Session  string // broker name in the config: the session whose window and table it belongs to
	Source   string // source name; "" when no source of the config asked for the topic any more
	Topic    []byte
	Payload  []byte
}

// Errors of a Journal.
var (
	// ErrJournalFull: max_bytes or the disk reserve is reached. Nothing was appended; the session is to disconnect cleanly.
	ErrJournalFull = errors.New("journal is full")
	// ErrJournalFailed: a write or fsync failed. Nothing is acknowledged any more until the storage is reopened.
	ErrJournalFailed = errors.New("journal failed")
	// ErrTrimmed: the position asked for lies below the journal's first record.
	ErrTrimmed = errors.New("position is below the journal's first record")
)

// Journal is what sources need. store/journal implements it.
type Journal interface {
	// Append copies e into the open block and returns its position. It does not wait for the disk and allocates nothing in
	// steady state; it may block while too much is unsynced. Durable once Durable() >= the position.
	Append(e *Entry) (Position, error)
	// AppendAll is Append for several entries in order, cheaper than one after the other; it sets their Pos. When it fails, the first
	// n were appended. Entries of others may lie between.
	AppendAll(es []Entry) (n int, err error)
	// First is the position of the first record held, Last()+1 when there is none.
	First() Position
	// Last is the position of the last record appended.
	Last() Position
	// Durable is the position up to which records survive a power cut.
	Durable() Position
	// OnDurable registers f, called by the journal's committer after each sync with the new durable position, or once with
	// err when the journal failed. f must not block. The returned function unregisters.
	OnDurable(f func(durable Position, err error)) (cancel func())
	// Sync waits until everything appended before the call is durable.
	Sync(ctx context.Context) error
	// Scan calls f for every durable record from position from on, in order; for rebuilding tables at start.
	Scan(from Position, f func(e *Entry) error) error
	// ScanBack calls f for the durable records of the kinds that want accepts, newest first, until f returns false.
	ScanBack(want func(EntryKind) bool, f func(e *Entry) (more bool, err error)) error
	// OnFull registers f, called with true when the journal becomes full and false when 20 % is free again.
	OnFull(f func(full bool)) (cancel func())
}

// Block is a run of consecutive durable records. It is immutable and may be shared between readers.
type Block struct {
	First, Last Position
	Entries     []Entry
}

// BlockReader hands a pipeline the durable records in order.
type BlockReader interface {
	// Next waits for records behind the last ones returned and gives at most one frame of them. It returns ErrTrimmed when
	// they are gone, ctx.Err() when ctx ended.
	Next(ctx context.Context) (*Block, error)
	Close() error
}
