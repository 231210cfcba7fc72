//go:build nopebble

package state

// LargeBuilt tells whether this binary has large tables.
const LargeBuilt = false
