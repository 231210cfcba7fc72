//go:build !weirfault

package boltkv

// watched is how the crash run's power cuts see what bbolt writes; this build has none.
type watched struct{}

// watchedSteps are those of a creation on a disk that a test watches.
func watchedSteps(s steps) steps { return s }

func watch(*DB) (watched, error)       { return watched{}, nil }
func (watched) synced(err error) error { return err }
func (watched) close() error           { return nil }
