//go:build !nopebble

package pebblekv

import (
	"bytes"

	"github.com/cockroachdb/pebble/v2"

	"github.com/weirstream/weir/pipeline/state"
)

// comparer orders keys by their bytes, as Pebble's own does, and tells what the keys of a group have in common: filters are made of that. So a walk within a group leaves out
// the tables of the store that have nothing of it, as a look-up of one key does.
func comparer() *pebble.Comparer {
	c := *pebble.DefaultComparer
	c.Name, c.Split = "weir.grouped", state.Grouped
	return &c
}

// groupOf gives a copy of lower when lower <= key < upper lies within a group, else nil.
func groupOf(lower, upper []byte) []byte {
	if !state.WithinGroup(lower, upper) {
		return nil
	}
	return bytes.Clone(lower)
}
