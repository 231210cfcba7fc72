package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// RestoreSavepoint makes a savepoint the state of a pipeline, in place of what it has now. The pipeline stops, and starts from the savepoint.
func (a *Agent) RestoreSavepoint(ctx context.Context, name string, o api.RestoreOptions) error {
	if err := a.fence.err(); err != nil {
		return err
	}
	if err := a.upgrader.masters(); err != nil {
		return err
	}
	s, err := a.supervisorOf(name)
	if err != nil {
		return err
	}
	id, err := statedir.ParseUUID(a.registry.UUID(s.name))
	if err != nil {
		return err
	}
	if o.Cancel {
		return a.cancelRestore(ctx, s, id)
	}
	if err := s.judge(ctx, o); err != nil { // before the pipeline is stopped
		return err
	}
	if err := s.ask(ctx, command{stop: true}); err != nil {
		return err
	}
	if err := restore.Order(filepath.Join(a.pipelinesDir(), id.String()), o); err != nil {
		return err
	}
	if err := s.ask(ctx, command{}); err != nil {
		return err
	}
	return s.started(ctx)
}

// judge refuses a restore that could not be carried out, as far as that can be told while the pipeline runs.
func (s *supervisor) judge(ctx context.Context, o api.RestoreOptions) error {
	f, err := restore.ReadSavepoint(ctx, o.File)
	if err != nil {
		return err
	}
	defer f.Close()
	if a := s.running(); a != nil {
		_, _, err = a.wayOf(f, o)
	}
	return err
}

// startPoll is how often a starting pipeline is looked at.
const startPoll = 20 * time.Millisecond

// started waits until the pipeline runs, or has failed.
func (s *supervisor) started(ctx context.Context) error {
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		s.mu.Lock()
		state, err := s.state, s.err
		s.mu.Unlock()
		switch state {
		case PipelineRunning:
			return nil
		case PipelineFailed, PipelineRestarting:
			return err
		}
		select {
		case <-tick.C:
		case <-s.ended:
			return errStopping
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// OrderRestore does that for an agent that does not run: its next start restores.
func OrderRestore(stateDir, pipeline string, o api.RestoreOptions) error {
	return atRest(stateDir, pipeline, func(dir string) error { return restore.Order(dir, o) })
}

// CancelRestore takes an order back that was not carried out, of an agent that does not run. It is durable on return.
func CancelRestore(stateDir, pipeline string) error {
	return atRest(stateDir, pipeline, restore.Cancel)
}

// atRest does something in the directory of a pipeline whose agent does not run.
func atRest(stateDir, pipeline string, do func(dir string) error) error {
	lock, err := statedir.Acquire(stateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	r, err := statedir.OpenRegistry(disk.OS, stateDir)
	if err != nil {
		return err
	}
	id, err := statedir.ParseUUID(r.Pipelines[pipeline])
	if err != nil {
		return fmt.Errorf("%w: %q; the agent must have run with it once", api.ErrNotFound, pipeline)
	}
	return do(filepath.Join(stateDir, "pipelines", id.String()))
}

// cancelRestore takes the order of a pipeline that it failed at back, and starts the pipeline from its own checkpoints.
func (a *Agent) cancelRestore(ctx context.Context, s *supervisor, id snapshot.UUID) error {
	if s.running() != nil {
		return fmt.Errorf("%w: pipeline %s runs", restore.ErrNoOrder, s.name)
	}
	if err := s.ask(ctx, command{stop: true}); err != nil { // between two tries it may wait, or be in one
		return err
	}
	if err := restore.Cancel(filepath.Join(a.pipelinesDir(), id.String())); err != nil {
		return err
	}
	if err := s.ask(ctx, command{}); err != nil {
		return err
	}
	return s.started(ctx)
}
