package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// restorePending restores the savepoint that was ordered, if any. An order that cannot be carried out stays, and the pipeline with it, until it
// can or `weir savepoint restore --cancel` takes it back: to start from the old state instead would be a surprise.
func (a *attempt) restorePending(ctx context.Context) error {
	name := filepath.Join(a.dir(), restore.File)
	o, there, err := restore.Ordered(a.agent.fs, a.dir())
	if !there {
		return nil
	}
	if err == nil {
		err = a.agent.crashed("ordered")
	}
	if err == nil && a.held.holds() {
		err = plantedUnrestored()
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
	if err := a.agent.crashed("order removed"); err != nil {
		return err
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
	f, err := restore.ReadSavepointTold(ctx, o.File, func(n int64) { verified(uint64(n)) })
	end()
	if err != nil {
		return err
	}
	defer f.Close()
	if is := fmt.Sprintf("%x", f.Summary.SHA256); o.SHA256 != "" && is != o.SHA256 {
		return fmt.Errorf("savepoint %s has sha256 %s, and the one that was made has %s", o.File, is, o.SHA256)
	}
	verdict, way, err := a.wayOf(f, o)
	if err != nil {
		return err
	}
	if err := a.standBehind(ctx, &f.Head, &way); err != nil {
		return err
	}
	inc, stamp := a.agent.incarnation(), a.agent.clock.Stamp()
	uids := []string{}
	for _, s := range a.graph.Sinks {
		uids = append(uids, s.UID)
	}
	if plantedMeekness(a.agent.identity) {
		way.Generation, way.Restarted = f.Head.Generation, false
	}
	if err := a.goOnStreams(ctx, f, o, way, verdict.Same); err != nil {
		return err
	}
	if err := a.agent.crashed("streams begun"); err != nil {
		return err
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
	if err := a.agent.crashed("restored"); err != nil {
		return err
	}
	if err := a.begin(); err != nil {
		return err
	}
	if err := a.agent.crashed("begun"); err != nil {
		return err
	}
	a.log.Info("savepoint restored", "file", o.File, "checkpoint", m.ID, "position", uint64(m.Position), "entries", f.Summary.Entries, "results", f.Summary.Results,
		"generation", m.Generation, "break", way.Why)
	return nil
}

// standBehind has the clock and the journal go on behind what the savepoint's state holds, and the journal keep what the pipeline reads from then on.
func (a *attempt) standBehind(ctx context.Context, h *savepoint.Head, way *savepoints.Way) error {
	j := a.agent.journal
	a.agent.clock.Raise(h.ElapsedNs)
	if h.Trusted {
		a.agent.clock.Seen(h.CreatedMs)
	}
	if at := pipeline.Position(h.Position); at > j.Last() { // its state holds positions: what comes is to lie behind them
		if err := j.SkipTo(ctx, at); err != nil {
			return err
		}
		if err := a.agent.crashed("journal skipped"); err != nil {
			return err
		}
		way.Position = at
	}
	j.Retain(a.id.String(), way.Position)
	if first := j.First(); way.Position+1 < first {
		return fmt.Errorf("the journal let records %d to %d go meanwhile", way.Position+1, first-1)
	}
	way.Position = min(way.Position+pipeline.Position(plantedLate()), max(way.Position, j.Last()))
	return nil
}

// goOnStreams has upstream know how the streams of a new generation go on from those of the savepoint. same: the plan is the one that made it.
func (a *attempt) goOnStreams(ctx context.Context, f *savepoint.File, o api.RestoreOptions, way savepoints.Way, same bool) error {
	switch {
	case a.fresh(&f.Head, o):
		return a.beginStreams(ctx, &f.Head)
	case way.Restarted:
		replay := uint64(0)
		if same && way.Position == pipeline.Position(f.Head.Position) { // the results are those that the device before made
			replay = o.Replay
		}
		return a.inherit(f.Head.Generation, f.Head.Sinks, replay)
	}
	return nil
}

// crashed is where tests plant a crash.
func (a *Agent) crashed(at string) error {
	if a.options.crash == nil {
		return nil
	}
	return a.options.crash(at)
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
	if a.fresh(&f.Head, o) && !a.agent.options.leftCounts {
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
