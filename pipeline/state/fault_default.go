//go:build !weirfault

package state

// plantedForget is the planted fault "forget the dirty list of an aborted checkpoint"; this build has none.
const plantedForget = false
