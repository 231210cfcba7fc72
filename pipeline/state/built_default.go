//go:build !nopebble

package state

// LargeBuilt tells whether this binary has large tables. Their only Backing is Pebble: a build without it leaves out what is for them alone, here and
// in the operators, which ask this constant first.
const LargeBuilt = true
