//go:build !weirfault

package channel

// plantedFaults are mistakes of an agent under test; this build has none.
func plantedFaults(f faults) faults { return f }
