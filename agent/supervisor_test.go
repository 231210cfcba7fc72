package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/agent/restart"
)

// scripted is a supervisor whose attempts end as the test says.
type scripted struct {
	*supervisor
	ends   chan error // one per attempt that shall fail
	starts int
	stop   context.CancelFunc
	done   chan error
}

func newScripted(t *testing.T, strategy restart.Strategy) *scripted {
	s := &scripted{ends: make(chan error), done: make(chan error, 1)}
	s.supervisor = newSupervisor("p", strategy, slog.New(slog.DiscardHandler), func(ctx context.Context, ready func(*attempt)) error {
		s.starts++
		ready(nil)
		s.set(PipelineRunning, nil)
		select {
		case err := <-s.ends:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	s.stop = stop
	go func() { s.done <- s.run(ctx) }()
	return s
}

// end stops it; within synctest a goroutine that is left fails the test.
func (s *scripted) end(t *testing.T) {
	t.Helper()
	s.stop()
	if err := <-s.done; err != nil {
		t.Error(err)
	}
	if err := s.ask(context.Background(), command{}); !errors.Is(err, errStopping) {
		t.Errorf("a command after the end: %v", err)
	}
}

func (s *scripted) want(t *testing.T, state PipelineState, starts int) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != state || s.starts != starts {
		t.Errorf("state %s after %d starts, want %s after %d (%v)", s.state, s.starts, state, starts, s.err)
	}
}

func (s *scripted) must(t *testing.T, c command) {
	t.Helper()
	if err := s.ask(t.Context(), c); err != nil {
		t.Error(err)
	}
}

var errPlanted = errors.New("planted")

func fixed(attempts int) restart.Strategy {
	return restart.Strategy{Kind: "fixed-delay", Attempts: attempts, Delay: time.Minute}
}

func TestSupervisorRestartsAndGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t, fixed(1))
		s.want(t, PipelineRunning, 1)
		s.ends <- errPlanted
		s.want(t, PipelineRestarting, 1)
		time.Sleep(time.Minute)
		s.want(t, PipelineRunning, 2)
		s.ends <- errPlanted
		s.want(t, PipelineFailed, 2)
		s.must(t, command{stop: true}) // harmless
		s.want(t, PipelineFailed, 2)
		s.must(t, command{}) // start: with a clean history
		s.want(t, PipelineRunning, 3)
		s.ends <- errPlanted
		s.want(t, PipelineRestarting, 3)
		s.end(t)
	})
}

func TestSupervisorDoesNotRestartWhatIsFinal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t, fixed(9))
		synctest.Wait()
		s.ends <- fmt.Errorf("%w: state is gone", errFinal)
		s.want(t, PipelineFailed, 1)
		time.Sleep(time.Hour)
		s.want(t, PipelineFailed, 1)
		s.end(t)
	})
}

// TestAStartIsAnsweredWhenItHasBegun: who waits for a start that was asked for is not given the error of the one before.
func TestAStartIsAnsweredWhenItHasBegun(t *testing.T) {
	for name, failure := range map[string]error{"failed": errFinal, "restarting": errPlanted} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScripted(t, fixed(9))
				synctest.Wait()
				s.ends <- failure
				synctest.Wait()
				c := command{done: make(chan error)} // nobody takes the answer yet
				s.commands <- c
				s.want(t, PipelineStarting, 1)
				if err := <-c.done; err != nil {
					t.Error(err)
				}
				s.want(t, PipelineRunning, 2)
				s.end(t)
			})
		})
	}
}

func TestSupervisorObeysWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t, fixed(9))
		synctest.Wait()
		s.ends <- errPlanted
		s.want(t, PipelineRestarting, 1)
		s.must(t, command{stop: true})
		s.want(t, PipelineStopped, 1)
		time.Sleep(time.Hour)
		s.want(t, PipelineStopped, 1)
		s.must(t, command{})
		s.want(t, PipelineRunning, 2)
		s.must(t, command{}) // it runs
		s.ends <- errPlanted
		s.want(t, PipelineRestarting, 2)
		s.must(t, command{}) // at once, without the wait
		s.want(t, PipelineRunning, 3)
		s.must(t, command{stop: true})
		s.want(t, PipelineStopped, 3)
		s.must(t, command{})
		s.want(t, PipelineRunning, 4)
		s.end(t)
	})
}

func TestSupervisorLetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScripted(t, fixed(9))
		synctest.Wait()
		s.must(t, command{fail: fmt.Errorf("%w: %w", errFinal, errLetGo)})
		s.want(t, PipelineFailed, 1)
		s.must(t, command{})
		s.want(t, PipelineRunning, 2)
		s.ends <- errPlanted
		s.must(t, command{fail: fmt.Errorf("%w: %w", errFinal, errLetGo)}) // while it waits
		s.want(t, PipelineFailed, 2)
		s.end(t)
	})
}
