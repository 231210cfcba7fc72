package main

import (
	"context"
	"sync"
	"time"

	"github.com/weirstream/weir/agent/api"
)

// watcher asks the agent for its status again and again and keeps the last answer; what the agent counts since its start is added up
// over its lives. run is its goroutine; stop ends it.
type watcher struct {
	client *api.Client
	ctx    context.Context // ends with stop; the watcher is a goroutine's handle
	stop   context.CancelFunc

	mu          sync.Mutex
	last        api.Status
	answered    bool // the present agent has answered
	journal     uint64
	checkpoints uint64
}

func newWatcher(socket string) *watcher {
	w := &watcher{client: api.Dial(socket)}
	w.ctx, w.stop = context.WithCancel(context.Background())
	return w
}

const askEvery = 100 * time.Millisecond

func (w *watcher) run() {
	for sleep(w.ctx, askEvery) == nil {
		ctx, cancel := context.WithTimeout(w.ctx, time.Second)
		status, err := w.client.Status(ctx)
		cancel()
		w.mu.Lock()
		w.answered = err == nil
		if err == nil {
			w.take(status)
		}
		w.mu.Unlock()
	}
}

// take adds up the lives of the agent: what it wrote after the last answer before a kill is not counted.
func (w *watcher) take(s api.Status) {
	if !s.Started.Equal(w.last.Started) {
		w.journal += w.last.Journal.Written
	}
	w.last = s
	for i := range s.Pipelines {
		w.checkpoints = max(w.checkpoints, s.Pipelines[i].Checkpoint.ID)
	}
}

// written is what the journal wrote and how many checkpoints were committed, over all lives.
func (w *watcher) written() (journal, checkpoints uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.journal + w.last.Journal.Written, w.checkpoints
}

// subscribed tells that the broker keeps messages for the agent.
func (w *watcher) subscribed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answered && len(w.last.Sessions) > 0 && w.last.Sessions[0].State == "ready"
}

// idle tells that the agent has handled and delivered all that it has.
func (w *watcher) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.answered || len(w.last.Pipelines) == 0 {
		return false
	}
	for i := range w.last.Pipelines {
		p := &w.last.Pipelines[i]
		if p.State != "running" || p.Lag > 0 {
			return false
		}
		for _, k := range p.Sinks {
			if k.Pending > 0 {
				return false
			}
		}
	}
	return true
}
