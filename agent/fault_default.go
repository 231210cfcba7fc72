//go:build !weirfault

package agent

// plantedDeath is where a test kills the agent; this build has none.
func plantedDeath(string) {}
