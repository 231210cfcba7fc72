package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/systemd"
	"github.com/weirstream/weir/agent/ticker"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
)

// Run works until ctx ends, then stops in order: sessions (their messages are durable and acknowledged), a last checkpoint of each
// pipeline, uplinks. It returns nil after a stop that was asked for.
func (a *Agent) Run(ctx context.Context) error {
	defer a.Close()
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	intake, stopIntake := context.WithCancel(work)
	defer stopIntake()
	group, gctx := errgroup.WithContext(work)
	group.Go(func() error { return a.server.Run(gctx) })
	if a.scraped != nil {
		group.Go(func() error { return a.scraped.Run(gctx) })
	}
	group.Go(func() error { return a.watchFailures(gctx) })
	a.spawn = func(s *supervisor) {
		ctx, quit := context.WithCancel(gctx)
		s.quit = quit
		group.Go(func() error { defer quit(); return s.run(ctx) })
	}
	if a.fence.err() != nil {
		stopIntake()
	} else if err := a.applier.begin(ctx); err != nil {
		return a.upgrader.unstarted(err)
	} else if err := a.upgrader.begin(); err != nil {
		return a.upgrader.unstarted(err)
	}
	for _, s := range a.all() {
		a.spawn(s)
	}
	sources := &intakes{broken: make(chan error, 1)}
	a.connect = func(s *session) { sources.start(intake, s) }
	if !a.upgrader.controls() {
		for _, s := range a.sessions() {
			a.connect(s)
		}
	}
	group.Go(func() error { return a.applier.run(gctx) })
	group.Go(func() error { return a.upgrader.run(gctx) })
	group.Go(func() error {
		t := &ticker.Ticker{Clock: a.clock, Journal: a.journal, Deadlines: a.nextDeadline, Worked: a.timers, Stepped: a.clockStepped}
		return t.Run(gctx)
	})
	group.Go(func() error { return a.keepSpace(gctx) })
	group.Go(func() error { return a.rebirths.run(gctx) })
	group.Go(func() error { return a.flash.Run(gctx) })
	group.Go(func() error { return a.watchClaim(gctx) })
	group.Go(func() error { return a.standDown(gctx, stopIntake, func() { _ = sources.wait() }) })
	if a.fence.err() == nil && !a.upgrader.controls() {
		group.Go(func() error { return a.offsites.run(gctx) })
	}
	group.Go(func() error { return a.fleet.run(gctx) })
	group.Go(func() error { return systemd.Run(gctx, a.Ready, a.Health, a.log) })
	group.Go(func() error { return a.lamps().Run(gctx, a.shownState) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			a.log.Info("agent is stopping: sessions, last checkpoints, deliveries")
		case <-a.upgrader.leaving():
		case <-a.fleet.leaving():
		case err := <-sources.broken:
			a.log.Error("agent is stopping", "error", err)
		case <-gctx.Done():
		}
		stopIntake()
		err := sources.wait()
		if gctx.Err() == nil {
			a.finalCheckpoints(ctx)
			a.deliverRest(ctx)
		}
		stopWork()
		return err
	})
	err := group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	if err != nil {
		a.log.Info("agent stopped", "error", err)
	} else {
		a.log.Info("agent stopped")
	}
	return err
}

// watchFailures ends the agent when the journal fails, or when no pipeline can run.
func (a *Agent) watchFailures(ctx context.Context) error {
	select {
	case err := <-a.failed:
		return advise(fmt.Errorf("journal: %w", err))
	case err := <-a.refused:
		return err
	case <-ctx.Done():
		return nil
	}
}

// ErrRefused ends Run when no pipeline has a valid checkpoint any more: starting again does not help, the operator has to act (field case 13).
// Failures of other kinds leave the agent alive: status tells of them.
var ErrRefused = errors.New("no pipeline can run")

// pipelineRefused ends the agent when it has nothing left to do: others going on is worth more than an exit code.
func (a *Agent) pipelineRefused() {
	var all []error
	for _, s := range a.all() {
		s.mu.Lock()
		state, err := s.state, s.err
		s.mu.Unlock()
		if state != PipelineFailed || !errors.Is(err, snapshot.ErrNoValidCheckpoint) {
			return
		}
		all = append(all, fmt.Errorf("pipeline %s: %w", s.name, err))
	}
	select {
	case a.refused <- fmt.Errorf("%w: %w", ErrRefused, errors.Join(all...)):
	default:
	}
}

func (a *Agent) finalCheckpoints(ctx context.Context) {
	var group errgroup.Group
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			group.Go(func() error { at.finalCheckpoint(ctx); return nil })
		}
	}
	group.Wait()
}

const (
	// deliverWait bounds how long a graceful stop waits for what the last checkpoints released; the rest stays in the outbox.
	deliverWait = 5 * time.Second
	deliverPoll = 20 * time.Millisecond
)

// deliverRest waits until the upstreams that answer hold what they may have, at most deliverWait.
func (a *Agent) deliverRest(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.lastWait)
	defer cancel()
	tick := time.NewTicker(deliverPoll)
	defer tick.Stop()
	for {
		pending := uint64(0)
		for _, s := range a.all() {
			if at := s.running(); at != nil {
				pending += at.deliverable()
			}
		}
		if pending == 0 {
			return
		}
		select {
		case <-ctx.Done():
			a.log.Info("results wait in the outbox for the next start", "results", pending)
			return
		case <-tick.C:
		}
	}
}

// timersChanged wakes the ticker, should it rest.
func (a *Agent) timersChanged() {
	select {
	case a.timers <- struct{}{}:
	default:
	}
}

// nextDeadline is the earliest timer of the running pipelines.
func (a *Agent) nextDeadline() int64 {
	due := int64(pipeline.NoDeadline)
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			due = min(due, at.engine.NextDeadline())
		}
	}
	return due
}
