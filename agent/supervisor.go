package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
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

// supervisor keeps one pipeline running: each attempt opens storage through recovery and restores the newest valid
// checkpoint, exactly as after a crash. Its goroutine owns everything but what mu guards.
type supervisor struct {
	name     string
	strategy RestartStrategy
	attempt  func(ctx context.Context, ready func(*attempt)) error
	log      *slog.Logger
	started  time.Time // of the agent: failures are counted by monotonic time

	refused func() // called behind a failure that only the operator can mend; set before run starts

	mu       sync.Mutex
	state    PipelineState
	err      error
	restarts uint64
	current  *attempt

	commands chan command
}

// command asks the supervisor to stop or start.
type command struct {
	stop bool
	done chan error
}

func newSupervisor(name string, strategy RestartStrategy, log *slog.Logger, attempt func(context.Context, func(*attempt)) error) *supervisor {
	return &supervisor{
		name: name, strategy: strategy, attempt: attempt, log: log.With("pipeline", name), started: time.Now(),
		state: PipelineStarting, commands: make(chan command), refused: func() {},
	}
}

// run works until ctx ends; a graceful stop (final checkpoint) is the agent's business before that.
func (s *supervisor) run(ctx context.Context) error {
	history := &FailureHistory{}
	wanted := true
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
				if c.stop {
					c.done <- nil
					continue
				}
				wanted = true
				history = &FailureHistory{}
				c.done <- nil
			}
		}
		ask, err := s.once(ctx)
		switch {
		case ctx.Err() != nil:
			s.set(PipelineStopped, nil)
			return nil
		case ask != nil:
			s.set(PipelineStopped, nil)
			wanted, stopped = false, ask.done
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
			s.current, s.state, s.err = a, PipelineRunning, nil
			s.mu.Unlock()
		})
	}()
	defer func() { s.mu.Lock(); s.current = nil; s.mu.Unlock() }()
	for {
		select {
		case err := <-done:
			return nil, err
		case c := <-s.commands:
			if !c.stop {
				c.done <- nil // it runs
				continue
			}
			if a := s.running(); a != nil {
				a.finalCheckpoint(ctx)
			}
			cancel()
			<-done
			return &c, nil
		}
	}
}

// failed notes a failure, waits as the strategy says, and tells whether to go on.
func (s *supervisor) failed(ctx context.Context, history *FailureHistory, err error) bool {
	wait, again := s.strategy.Next(history, time.Since(s.started), random())
	if errors.Is(err, errFinal) {
		again = false
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
	s.mu.Unlock()
	s.log.Error("pipeline failed; it restarts from its newest checkpoint", "error", err, "wait", wait)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case c := <-s.commands:
			c.done <- nil
			return !c.stop
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

// ask sends a command and waits until it is carried out.
func (s *supervisor) ask(ctx context.Context, stop bool) error {
	c := command{stop: stop, done: make(chan error, 1)}
	select {
	case s.commands <- c:
	case <-ctx.Done():
		return fmt.Errorf("ask pipeline %s: %w", s.name, ctx.Err())
	}
	select {
	case err := <-c.done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("ask pipeline %s: %w", s.name, ctx.Err())
	}
}
