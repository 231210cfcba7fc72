// Package state keeps the keyed state of one step in memory: a pointer-free slab with epoch stamps and a dirty list, so
// that a checkpoint barrier swaps a list instead of copying a table.
package state

import "errors"

// Kind is the kind of a table.
type Kind uint8

const (
	// Value: one value per key.
	Value Kind = 1
	// Map: for each key a map from subkey to value.
	Map Kind = 2
	// List: for each key an append-only list; a delta holds only the new elements. Reserved: comes with the joins.
	List Kind = 3
)

// Spec declares a table. Name is unique within its step; (uid, name) is its identity in snapshots.
type Spec struct {
	Name    string
	Kind    Kind
	Type    string // what the bytes are, for evolution: "window.acc", "ops.alarm"
	Version uint16 // of Type
	TTL     int64  // elapsed ns since the last write after which an entry is gone; 0: never
	MaxKeys int    // 0: no limit
}

// ErrMaxKeys is returned when a new key would exceed Spec.MaxKeys. The table is unchanged.
var ErrMaxKeys = errors.New("max_keys reached")
