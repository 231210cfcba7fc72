//go:build !weirfault

package central

// built are the faults of this build: none.
func built() planted { return planted{} }
