package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weirstream/weir/agent/restart"
)

// PipelineState is what a supervisor shows.
type PipelineState string

// The states of a supervised pipeline.
const (
	PipelineStarting   PipelineState = "starting"
	PipelineRunning    PipelineState = "running"
	PipelineRestarting PipelineState = "restarting"
	PipelineFailed     PipelineState = "failed"
	PipelineStopped    PipelineState = "stopped"
)

// errFinal marks a failure that no restart can mend: the operator has to act. The strategy is not asked.
var errFinal = errors.New("not restarted")

// errDrained is the error of a stop that failed after the end of event time had come: the pipeline starts again from its newest checkpoint.
var errDrained = errors.New("the pipeline was drained and starts again from its newest checkpoint")

// supervisor keeps one pipeline running: each attempt opens storage through recovery and restores the newest valid
// checkpoint, exactly as after a crash. Its goroutine owns everything but what mu guards.
type supervisor struct {
	name     string
	base     string // of the pipeline that it is a region of; else the same
	strategy restart.Strategy
	attempt  func(ctx context.Context, ready func(*attempt)) error
	log      *slog.Logger
	since    time.Time // of the agent: failures are counted by monotonic time

	poisons restart.Poisons // records that its steps fail at; set before run starts, then run's goroutine owns it

	spec run    // what it runs; set before run starts
	quit func() // ends run; set before run starts

	parked  error  // why it is not started; nil: it is. Set before run starts
	refused func() // called behind a failure that only the operator can mend; set before run starts

	mu       sync.Mutex
	state    PipelineState
	err      error
	failure  error // the last one; it stays when the pipeline runs again
	restarts uint64
	current  *attempt

	between   stillness // of starts and ends
	unwatched bool      // planted by a test: they are not watched

	commands chan command
	ended    chan struct{} // closed when run has returned
}

// command asks the supervisor to stop or start, or to let the pipeline fail for good.
type command struct {
	stop bool
	fail error // not nil: as if the attempt had failed with it; no last checkpoint
	// before, if not nil, is done with the running pipeline in place of the last checkpoint; when it fails the pipeline goes on.
	before func(*attempt) error
	done   chan error
}

func newSupervisor(name string, strategy restart.Strategy, log *slog.Logger, attempt func(context.Context, func(*attempt)) error) *supervisor {
	return &supervisor{
		name: name, base: name, strategy: strategy, attempt: attempt, log: log.With("pipeline", name), since: time.Now(),
		state: PipelineStarting, commands: make(chan command), ended: make(chan struct{}), refused: func() {}, quit: func() {},
	}
}

// run works until ctx ends; a graceful stop (final checkpoint) is the agent's business before that.
func (s *supervisor) run(ctx context.Context) error {
	defer close(s.ended)
	history := &restart.History{}
	wanted := s.parked == nil
	if !wanted {
		s.set(PipelineStopped, s.parked)
	}
	var stopped chan error
	for {
		if !wanted {
			if stopped != nil {
				stopped <- nil
				stopped = nil
			}
			select {
			case <-ctx.Done():
				return nil
			case c := <-s.commands:
				if c.stop || c.fail != nil {
					if c.fail != nil {
						s.set(PipelineFailed, c.fail)
					}
					var err error // it does not run: that is done
					if c.before != nil {
						err = s.beforeStop(nil, c.before)
					}
					c.done <- err
					continue
				}
				wanted = true
				history = &restart.History{}
				s.set(PipelineStarting, nil) // before the answer: whoever asked looks at what becomes of this start, not at how the last one failed
				c.done <- nil
			}
		}
		ask, err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			s.set(PipelineStopped, nil)
			return nil
		case ask != nil && ask.fail != nil:
			wanted = s.failed(ctx, history, ask.fail)
			ask.done <- nil
			continue
		case ask != nil:
			s.set(PipelineStopped, nil)
			wanted, stopped = false, ask.done
			continue
		case errors.Is(err, errDrained):
			continue
		}
		wanted = s.failed(ctx, history, err)
	}
}

// once runs one attempt until it fails, ctx ends or a stop is asked for; then the attempt has made its last checkpoint.
func (s *supervisor) once(ctx context.Context) (*command, error) {
	s.set(PipelineStarting, nil)
	run, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { // ends with run; waited for below
		done <- s.attempt(run, func(a *attempt) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.current = a; a != nil {
				s.state, s.err = PipelineRunning, nil
			}
		})
	}()
	for {
		select {
		case err := <-done:
			return nil, err
		case c := <-s.commands:
			if !c.stop && c.fail == nil {
				c.done <- nil // it runs
				continue
			}
			a := s.running()
			if c.before != nil {
				if err := s.beforeStop(a, c.before); err != nil {
					c.done <- err
					if errors.Is(err, errDrained) {
						cancel()
						<-done
						return nil, errDrained
					}
					continue
				}
			} else if a != nil && c.fail == nil {
				a.finalCheckpoint(ctx)
			}
			cancel()
			<-done
			return &c, nil
		}
	}
}

// beforeStop does what a stop was asked to be preceded by.
func (s *supervisor) beforeStop(a *attempt, before func(*attempt) error) error {
	if a == nil {
		return fmt.Errorf("pipeline %s does not run now; see weir status", s.name)
	}
	return before(a)
}

// failed notes a failure, waits as the strategy says, and tells whether to go on. A command ends the waiting: stop leaves the
// pipeline stopped, start begins at once and with a clean history.
func (s *supervisor) failed(ctx context.Context, history *restart.History, err error) bool {
	if tries, skipped, at := s.poisons.Failed(err); skipped {
		s.log.Error("a step fails at one record whenever it is tried; the record becomes a dead letter", "step", at.Step, "position", at.Position, "tries", tries)
	}
	wait, again := time.Duration(0), false
	if !errors.Is(err, errFinal) || ofDisk(err) { // a file that could not be read may be readable once the disk is well
		wait, again = s.strategy.Next(history, time.Since(s.since), rand.Float64())
	}
	if !again {
		s.set(PipelineFailed, err)
		s.log.Error("pipeline failed and is not restarted; it holds its place in the journal", "error", err, "strategy", s.strategy.Kind)
		if errors.Is(err, errFinal) {
			s.refused()
		}
		return false
	}
	s.set(PipelineRestarting, err)
	s.mu.Lock()
	s.restarts++
	s.failure = err
	s.mu.Unlock()
	s.log.Error("pipeline failed; it restarts from its newest checkpoint", "error", advise(err), "wait", wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case c := <-s.commands:
			switch {
			case c.before != nil:
				c.done <- s.beforeStop(nil, c.before)
				continue
			case c.stop:
				s.set(PipelineStopped, err)
			case c.fail != nil:
				s.set(PipelineFailed, c.fail)
			default:
				*history = restart.History{}
				s.set(PipelineStarting, nil)
			}
			c.done <- nil
			return !c.stop && c.fail == nil
		}
	}
}

func (s *supervisor) set(state PipelineState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.err = state, err
}

func (s *supervisor) running() *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// errStopping is the answer to a command that comes while the agent stops.
var errStopping = errors.New("the agent is stopping")

// ask sends a command and waits until it is carried out.
func (s *supervisor) ask(ctx context.Context, c command) error {
	c.done = make(chan error, 1)
	select {
	case s.commands <- c:
	case <-s.ended:
		return fmt.Errorf("ask pipeline %s: %w", s.name, errStopping)
	case <-ctx.Done():
		return fmt.Errorf("ask pipeline %s: %w", s.name, ctx.Err())
	}
	select {
	case err := <-c.done:
		return err
	case <-s.ended:
		return fmt.Errorf("ask pipeline %s: %w", s.name, errStopping)
	case <-ctx.Done():
		return fmt.Errorf("ask pipeline %s: %w", s.name, ctx.Err())
	}
}
