package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// restoreFile in a pipeline's directory says that its next start restores a savepoint. It is durable before anything is changed, and goes once the
// checkpoint that the savepoint became is durable: a crash between the two does it again.
const restoreFile = "restore.json"

// RestoreSavepoint makes a savepoint the state of a pipeline, in place of what it has now. The pipeline stops, and starts from the savepoint.
func (a *Agent) RestoreSavepoint(ctx context.Context, name string, o api.RestoreOptions) error {
	if err := a.fence.err(); err != nil {
		return err
	}
	s, err := a.supervisorOf(name)
	if err != nil {
		return err
	}
	id, err := parseUUID(a.registry.UUID(s.name))
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
	lock, err := LockStateDir(stateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	r, err := OpenRegistry(disk.OS, stateDir)
	if err != nil {
		return err
	}
	id, err := parseUUID(r.Pipelines[pipeline])
	if err != nil {
		return fmt.Errorf("%w: %q; the agent must have run with it once", api.ErrNotFound, pipeline)
	}
	return writeRestore(filepath.Join(stateDir, "pipelines", id.String()), o)
}

// CancelRestore takes an order back that was not carried out, of an agent that does not run. It is durable on return.
func CancelRestore(stateDir, pipeline string) error {
	lock, err := LockStateDir(stateDir)
	if err != nil {
		return err
	}
	defer lock.Close()
	r, err := OpenRegistry(disk.OS, stateDir)
	if err != nil {
		return err
	}
	id, err := parseUUID(r.Pipelines[pipeline])
	if err != nil {
		return fmt.Errorf("%w: %q", api.ErrNotFound, pipeline)
	}
	return cancelRestore(filepath.Join(stateDir, "pipelines", id.String()))
}

func cancelRestore(dir string) error {
	err := disk.OS.Remove(filepath.Join(dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: no restore is ordered", api.ErrNotFound)
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
		return fmt.Errorf("%w: pipeline %s runs, no restore is ordered", api.ErrNotFound, s.name)
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
	b, err := json.Marshal(o)
	if err == nil {
		err = disk.OS.MkdirAll(dir)
	}
	if err == nil {
		err = disk.WriteFileAtomic(disk.OS, filepath.Join(dir, restoreFile), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("order the restore: %w", err)
	}
	return nil
}

// ordered reads the order in a pipeline's directory; the zero value: there is none.
func (a *Agent) ordered(dir string) (o api.RestoreOptions, err error) {
	b, err := disk.ReadFile(a.fs, filepath.Join(dir, restoreFile))
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	return o, err
}

// ReadSavepoint opens and verifies a savepoint file.
func ReadSavepoint(ctx context.Context, path string) (*savepoint.File, error) {
	return readSavepoint(ctx, path, nil)
}

// readSavepoint tells how many bytes are verified, of twice the size.
func readSavepoint(ctx context.Context, path string, told func(n int64)) (*savepoint.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open savepoint: %w", err)
	}
	info, err := f.Stat()
	if err == nil {
		var s *savepoint.File
		if s, err = savepoint.Open(ctx, f, info.Size(), nil, told); err == nil {
			return s, nil
		}
	}
	return nil, errors.Join(fmt.Errorf("savepoint %s: %w", path, err), f.Close())
}

// restorePending restores the savepoint that was ordered, if any. An order that cannot be carried out stays, and the pipeline with it, until it
// can or `weir savepoint restore --cancel` takes it back: to start from the old state instead would be a surprise.
func (a *attempt) restorePending(ctx context.Context) error {
	name := filepath.Join(a.dir(), restoreFile)
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var o api.RestoreOptions
	if err == nil {
		err = checkFormat(b, restoreFile, restoreFormat)
	}
	if err == nil {
		err = json.Unmarshal(b, &o)
	}
	if err == nil {
		err = a.restoreSavepoint(ctx, o)
	}
	if err != nil {
		return fmt.Errorf("%w: restore of a savepoint, ordered by %s: %w; mend that and start the pipeline, or take the order back (weir savepoint restore --cancel) to start from its own checkpoints", errFinal, name, err)
	}
	if err := disk.OS.Remove(name); err != nil {
		return fmt.Errorf("remove the order of a restore that is done: %w", err)
	}
	if err := disk.OS.SyncDir(a.dir()); err != nil {
		return fmt.Errorf("remove the order of a restore that is done: %w", err)
	}
	if o.Claim {
		a.tell("remove the claimed savepoint", os.Remove(o.File))
	}
	return nil
}

func (a *attempt) restoreSavepoint(ctx context.Context, o api.RestoreOptions) error {
	size := uint64(0)
	if info, err := os.Stat(o.File); err == nil {
		size = 2 * uint64(info.Size())
	}
	verified, end := a.work("verifying the savepoint", "bytes", size)
	f, err := readSavepoint(ctx, o.File, func(n int64) { verified(uint64(n)) })
	end()
	if err != nil {
		return err
	}
	defer f.Close()
	verdict, way, err := a.wayOf(f, o)
	if err != nil {
		return err
	}
	j := a.agent.journal
	a.agent.clock.Raise(f.Head.ElapsedNs)
	if f.Head.Trusted {
		a.agent.clock.Seen(f.Head.CreatedMs)
	}
	if at := pipeline.Position(f.Head.Position); at > j.Last() { // its state holds positions: what comes is to lie behind them
		if err := j.SkipTo(ctx, at); err != nil {
			return err
		}
		way.Position = at
	}
	j.Retain(a.id.String(), way.Position)
	if first := j.First(); way.Position+1 < first {
		return fmt.Errorf("the journal let records %d to %d go meanwhile", way.Position+1, first-1)
	}
	way.Position = min(way.Position+pipeline.Position(plantedLate()), max(way.Position, j.Last()))
	inc, stamp := a.agent.incarnation(), a.agent.clock.Stamp()
	uids := []string{}
	for _, s := range a.graph.Sinks {
		uids = append(uids, s.UID)
	}
	if plantedMeekness(a.agent.identity) {
		way.Generation, way.Restarted = f.Head.Generation, false
	}
	switch {
	case a.fresh(&f.Head, o):
		if err := a.beginStreams(ctx, &f.Head); err != nil {
			return err
		}
	case way.Restarted:
		replay := uint64(0)
		if verdict.Same && way.Position == pipeline.Position(f.Head.Position) { // the results are those that the device before made
			replay = o.Replay
		}
		if err := a.inherit(f.Head.Generation, f.Head.Sinks, replay); err != nil {
			return err
		}
	}
	restored, end := a.work("restoring the savepoint", "entries", f.Summary.Entries)
	defer end()
	m, err := savepoints.Restore(ctx, f, savepoints.Into{
		Told:  restored,
		Store: a.store, Outbox: a.outbox, Pipeline: a.id, Incarnation: snapshot.Incarnation{Major: inc.Major, Minor: inc.Minor},
		PlanHash: a.graph.Hash, Behaviours: behaviours(a.graph), Sinks: append(uids, exec.DeadSink),
		Position: way.Position, Generation: way.Generation, Restarted: way.Restarted, Take: verdict.Take, WallMs: stamp.Wall, Trusted: stamp.Trusted,
	})
	if err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	a.log.Info("savepoint restored", "file", o.File, "checkpoint", m.ID, "position", uint64(m.Position), "entries", f.Summary.Entries, "results", f.Summary.Results,
		"generation", m.Generation, "break", way.Why)
	return nil
}

// wayOf tells what the plan takes over of a savepoint, and where the pipeline goes on from it.
func (a *attempt) wayOf(f *savepoint.File, o api.RestoreOptions) (*savepoints.Verdict, savepoints.Way, error) {
	verdict, err := savepoints.Judge(&f.Head, f.Counts(), a.graph, o.AllowDroppedState)
	if err != nil {
		return nil, savepoints.Way{}, err
	}
	stood, own, err := a.since(&f.Head)
	if err != nil {
		return nil, savepoints.Way{}, err
	}
	j, ends := a.agent.journal, a.outbox.Ends()
	if a.fresh(&f.Head, o) {
		ends, stood = nil, true // what is there is of an earlier try
	}
	way, err := savepoints.Decide(&f.Head, &savepoints.Ground{
		Journal: a.agent.registry.Journal, First: j.First(), Next: j.Last() + 1, SamePlan: verdict.Same && own, Stood: stood,
		Ends: ends, Least: a.agent.identity.LeastGeneration, Whole: o.Takeover, AcceptGap: o.AcceptGap,
	})
	if o.Takeover {
		way.Position = max(way.Position, pipeline.Position(o.Behind))
	}
	if err == nil && !way.Restarted && a.fresh(&f.Head, o) {
		way.Restarted, way.Generation, way.Why = true, max(way.Generation+1, a.agent.identity.LeastGeneration), "it is of another pipeline, whose results went elsewhere"
	}
	return verdict, way, err
}
