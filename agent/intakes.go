package agent

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirstream/weir/agent/config"
)

// intakes are the sessions that run.
type intakes struct {
	broken chan error // of a session that ended though nobody asked it to
	group  sync.WaitGroup
	mu     sync.Mutex
	closed bool  // the agent stops: none is started any more
	err    error // of the first that failed
}

// start runs a session until ctx ends, or session.quit.
func (i *intakes) start(ctx context.Context, s *session) {
	own, quit := context.WithCancel(ctx)
	s.quit, s.ended = quit, make(chan struct{})
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		quit()
		close(s.ended)
		return
	}
	i.group.Go(func() {
		defer close(s.ended)
		defer quit()
		err := s.run(own)
		if own.Err() == nil {
			err = fmt.Errorf("session of broker %s ended: %w", s.name, err)
			select {
			case i.broken <- err:
			default:
			}
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.err == nil {
			i.err = err
		}
	})
}

// wait is for the end of all.
func (i *intakes) wait() error {
	i.mu.Lock()
	i.closed = true
	i.mu.Unlock()
	i.group.Wait()
	return i.err
}

// newSessions makes the sessions of a config. A broker that only sinks publish to has none: the sink has one of its own.
func (a *Agent) newSessions(cfg *config.Config) (list []*session, err error) {
	for _, b := range cfg.Brokers {
		if !cfg.Subscribes(b) {
			continue
		}
		s, err := a.newSession(cfg, b)
		if err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}
