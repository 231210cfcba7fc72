//go:build !weirfault

package expr

// withPlanted adds what only builds for the crash run have; this build adds nothing.
func withPlanted(all map[string]*function) map[string]*function { return all }
