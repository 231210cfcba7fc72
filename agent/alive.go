package agent

import (
	"fmt"
	"sync"
	"time"
)

// stillness remembers when something last got on. Safe for several callers: the watchdog and /healthz both ask.
type stillness struct {
	mu    sync.Mutex
	at    uint64
	moved time.Time
}

// observe notes how far something is, and tells whether it has stood still for longer than most although it was busy each time that it was asked.
func (s *stillness) observe(at uint64, busy bool, now time.Time, most time.Duration) (stuck bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at != s.at || !busy || s.moved.IsZero() {
		s.at, s.moved = at, now
		return false
	}
	return now.Sub(s.moved) > most
}

// Worked changes with whatever the agent does for its pipelines: records, what is made of them, checkpoints. It stands still while the agent idles.
func (a *Agent) Worked() uint64 {
	n := uint64(a.journal.Durable())
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			n += uint64(at.engine.Handled()) + at.coordinator.Beat().Step
		}
	}
	return n
}

// hangingJournal: the committer is within one write or sync for stuckAfter. Nothing is acknowledged meanwhile, and no pipeline has anything to do, so that only this tells. A full disk is no
// hanging: the committer tries again and again.
func (a *Agent) hangingJournal(now time.Time) error {
	if beat, working := a.journal.Beat(); a.committing.observe(beat, working, now, stuckFor()) {
		return fmt.Errorf("the journal hangs in a write or sync: %w for %s", errStuck, stuckFor())
	}
	return nil
}

// startsFor is how long a start or an end of a pipeline may take from one of its steps to the next: what a service manager gives the whole agent (TimeoutStartSec of the unit). The longest step
// reads what there is, once: the log of an outbox, a checkpoint.
func startsFor() time.Duration { return 2 * stuckFor() }

// hanging tells that a start or an end of the pipeline does not get on. Between its runs, while it waits to be tried again, and when it has failed, nothing is to get on.
func (s *supervisor) hanging(steps uint64, now time.Time) error {
	s.mu.Lock()
	starts, ends := s.state == PipelineStarting, s.state == PipelineRunning && s.current == nil
	s.mu.Unlock()
	if !s.between.observe(steps, (starts || ends) && !s.unwatched, now, startsFor()) {
		return nil
	}
	if ends {
		return fmt.Errorf("its end hangs: %w for %s", errStuck, startsFor())
	}
	return fmt.Errorf("its start hangs: %w for %s", errStuck, startsFor())
}

// hanging tells which part of a pipeline does not get on: a task, or its checkpoints.
func (at *attempt) hanging(now time.Time) error {
	handled, pushedBack := at.engine.Handled(), at.pushedBack()
	if at.progress.observe(uint64(handled), handled < at.agent.journal.Durable() && !pushedBack, now, stuckFor()) {
		return fmt.Errorf("stands at position %d: %w for %s", handled, errStuck, stuckFor())
	}
	b := at.coordinator.Beat()
	if at.turns.observe(b.Turns, true, now, stuckFor()) {
		return fmt.Errorf("the coordinator of checkpoints hangs: %w for %s", errStuck, stuckFor())
	}
	// A barrier may take the timeout of checkpoints; what follows its failure takes no time.
	most := at.spec.Checkpoint.Timeout + stuckFor()
	if at.barriers.observe(b.Step, b.Busy && !(b.Aligning && pushedBack), now, most) {
		return fmt.Errorf("a checkpoint hangs: %w for %s", errStuck, most)
	}
	return nil
}
