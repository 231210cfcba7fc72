//go:build !weirfault

package mqtt

// plantedFaults are those that the environment asks for; this build has none.
func plantedFaults() faults { return faults{} }

func plantedAnchors(p anchorPolicy) anchorPolicy { return p }
