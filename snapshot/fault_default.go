//go:build !weirfault

package snapshot

// plantedFaults are those that the environment asks for; this build has none.
func plantedFaults() faults { return faults{} }

// plantedStoreFaults: this build has none.
func plantedStoreFaults() storeFaults { return storeFaults{} }
