// Package state keeps the keyed state of one step in memory: a pointer-free slab with epoch stamps and a dirty list, so
// that a checkpoint barrier swaps a list instead of copying a table. Nothing here is durable: what Encode yields is, once
// the snapshot coordinator has written it, and it says so with Commit.
//
// DESIGN.md draws the layout, FORMAT.md tells the bytes that Encode yields and Load takes.
package state

// Kind is the kind of a table.
type Kind uint8

const (
	// Value: one value per key.
	Value Kind = 1
	// Map: for each key a map from subkey to value.
	Map Kind = 2
	// List: for each key a list that grows at its end; a delta holds only the new elements (list.go).
	List Kind = 3
)

// Spec declares a table. Name is unique within its step; (uid, name) is its identity in snapshots.
type Spec struct {
	Name    string
	Kind    Kind
	Type    string // what the bytes are, for evolution: "window.acc", "ops.alarm"
	Version uint16 // of Type
	TTL     int64  // ns: an entry is gone once this much elapsed since its last write; 0: never
	MaxKeys int    // 0: no limit
}
