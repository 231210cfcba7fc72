//go:build !weirfault

package boot

// plantedFault is of the tests' build.
func plantedFault() fault { return "" }
