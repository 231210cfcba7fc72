package snapshot

// Beat is how far the coordinator is. One that does not move although it should is stuck.
type Beat struct {
	Turns uint64 // of Run's loop; each call of Beat asks for one
	Step  uint64 // changes with each barrier and phase
	Busy  bool   // a barrier is under way
	// Aligning: what is awaited are the tasks, which may stand behind a full sink.
	Aligning bool
}

// Beat tells, and wakes the loop, so that Turns moves until the next call while the loop is alive. It waits for nothing.
func (c *Coordinator) Beat() Beat {
	select {
	case c.wake <- struct{}{}:
	default:
	}
	step := c.beatStep.Load()
	phase := Phase(step % phases)
	return Beat{Turns: c.beatTurns.Load(), Step: step, Busy: phase != PhaseIdle, Aligning: phase == PhaseAligning || phase == PhaseDraining}
}

// phases is more than there are.
const phases = 8

// turned notes where the loop is.
func (c *Coordinator) turned() {
	c.beatStep.Store(c.state.ID*phases + uint64(c.state.Phase))
}
