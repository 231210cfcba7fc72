package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/store/disk"
)

// errFenced is the answer to whoever wants a fenced device to work.
var errFenced = errors.New("this device is fenced")

// fence tells whether another device has taken this one's place.
type fence struct {
	mu    sync.Mutex
	by    *identity.Fenced
	after *Stranded // what was counted behind it; nil: not yet
	up    chan struct{}
}

func newFence() *fence { return &fence{up: make(chan struct{})} }

// raise takes the first reason; it tells whether it was.
func (f *fence) raise(by *identity.Fenced) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by != nil {
		return false
	}
	f.by = by
	close(f.up)
	return true
}

// err is nil when the device may work.
func (f *fence) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.by == nil {
		return nil
	}
	return fmt.Errorf("%w: %s; weir handover export gives what it has not delivered, weir handover retake makes it this gateway again", errFenced, f.by.Why())
}

// fenceOff stops this device for good (RULES 29): durable first, so that it starts fenced too. A note that cannot be written does not keep it from stopping.
func (a *Agent) fenceOff(by *identity.Fenced) {
	if plantedDeafness {
		return
	}
	by.Ours, by.WallMs = a.identity.Major, a.clock.Stamp().Wall
	if !a.fence.raise(by) {
		return
	}
	a.log.Error("this device is fenced: it disconnects from its brokers and stops its pipelines; its data stays", "why", by.Why())
	if err := by.Save(disk.OS, a.config.StateDir.Value); err != nil {
		a.log.Error("the next start will have to learn it again", "error", err)
	}
}

// lastStand is a last checkpoint, and a note of what upstream has confirmed: it will not be asked again.
func lastStand(ctx context.Context) func(*attempt) error {
	return func(at *attempt) error {
		at.finalCheckpoint(ctx)
		at.tell("remember what upstream has confirmed", at.outbox.Remember(ctx))
		return nil
	}
}

// standDown waits for the fence; then, once the sessions have ended, it stops every pipeline behind a last checkpoint and counts what is left here.
func (a *Agent) standDown(ctx context.Context, stopIntake func(), ended func()) error {
	select {
	case <-a.fence.up:
	case <-ctx.Done():
		return nil
	}
	stopIntake()
	ended()
	var group errgroup.Group
	for _, s := range a.all() {
		group.Go(func() error {
			if err := s.ask(ctx, command{stop: true, before: lastStand(ctx)}); err == nil {
				return nil
			}
			return s.ask(ctx, command{stop: true}) // it does not run, or is about to
		})
	}
	if err := group.Wait(); err != nil {
		return nil // the agent stops
	}
	left, err := a.countStranded(ctx)
	if err != nil {
		a.log.Error("what was not delivered cannot be counted", "error", err)
		return nil
	}
	a.fence.mu.Lock()
	a.fence.after = left
	a.fence.mu.Unlock()
	a.log.Warn("what this device has not delivered stays here", "results", left.Results, "records", left.Records)
	return nil
}
