package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// restoreFile in a pipeline's directory says that its next start restores a savepoint. It is durable before anything is changed, and goes once the
// checkpoint that the savepoint became is durable: a crash between the two does it again.
const restoreFile = "restore.json"

// errNoOrder: there is nothing to take back.
var errNoOrder = errors.New("no restore is ordered")

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
	if err := writeRestore(filepath.Join(a.pipelinesDir(), id.String()), o); err != nil {
		return err
	}
	if err := s.ask(ctx, command{}); err != nil {
		return err
	}
	return s.started(ctx)
}

// judge refuses a restore that could not be carried out, as far as that can be told while the pipeline runs.
func (s *supervisor) judge(ctx context.Context, o api.RestoreOptions) error {
	f, err := ReadSavepoint(ctx, o.File)
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
	return atRest(stateDir, pipeline, func(dir string) error { return writeRestore(dir, o) })
}

// CancelRestore takes an order back that was not carried out, of an agent that does not run. It is durable on return.
func CancelRestore(stateDir, pipeline string) error { return atRest(stateDir, pipeline, cancelRestore) }

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

func cancelRestore(dir string) error {
	err := disk.OS.Remove(filepath.Join(dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return errNoOrder
	}
	if err == nil {
		err = disk.OS.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("cancel the restore: %w", err)
	}
	return nil
}

// cancelRestore takes the order of a pipeline that it failed at back, and starts the pipeline from its own checkpoints.
func (a *Agent) cancelRestore(ctx context.Context, s *supervisor, id snapshot.UUID) error {
	if s.running() != nil {
		return fmt.Errorf("%w: pipeline %s runs", errNoOrder, s.name)
	}
	if err := s.ask(ctx, command{stop: true}); err != nil { // between two tries it may wait, or be in one
		return err
	}
	if err := cancelRestore(filepath.Join(a.pipelinesDir(), id.String())); err != nil {
		return err
	}
	if err := s.ask(ctx, command{}); err != nil {
		return err
	}
	return s.started(ctx)
}

func writeRestore(dir string, o api.RestoreOptions) error {
	err := disk.OS.MkdirAll(dir)
	if err == nil {
		err = record.Write(disk.OS, filepath.Join(dir, restoreFile), o)
	}
	if err != nil {
		return fmt.Errorf("order the restore: %w", err)
	}
	return nil
}

// ordered reads the order in a pipeline's directory, if there is one.
func (a *Agent) ordered(dir string) (o api.RestoreOptions, there bool, err error) {
	there, err = record.Read(a.fs, filepath.Join(dir, restoreFile), record.First(restoreFile), &o)
	return o, there, err
}
