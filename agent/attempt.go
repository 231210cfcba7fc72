package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/deadletter"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/uplink"
)

// attempt is one run of a pipeline from restore to failure or stop: the parts joined together. Everything is opened
// through recovery, so that a restart after an operator's error takes the same way as one after a power cut.
type attempt struct {
	agent       *Agent
	spec        *config.Pipeline
	config      *config.Config // that it is of
	ways        map[string]*uplink.Link
	held        *probation // nil: its results may leave
	graph       *plan.Graph
	id          snapshot.UUID
	log         *slog.Logger
	outbox      *outbox.Outbox
	store       snapshot.Store
	dead        *deadletter.Store
	deadLock    *sync.Mutex  // held while dead is open
	feed        *deadFeed    // nil: dead letters go nowhere
	state       *pebblekv.DB // nil: the backend is memory
	engine      *exec.Pipeline
	coordinator *snapshot.Coordinator
	links       []*link
	generation  uint64    // of the sinks in this attempt
	progress    stillness // of the position handled
	turns       stillness // of the coordinator's loop
	barriers    stillness // of the checkpoint under way
	fallbacks   []snapshot.Fallback
	skip        []exec.Poison // records that steps go on without
	steps       []*plan.StepSpec
	replay      pipeline.Position // results of records up to there are made first, and then sent; 0: see replay.go
	settled     chan struct{}     // closed once links may begin
	stale       []string          // lookup files that changed since the checkpoint; it goes on with their earlier content
}

// finalCheckpointWait bounds the last checkpoint of a graceful stop: systemd's TimeoutStopSec is 90 s by default.
const finalCheckpointWait = 20 * time.Second

// run joins the parts, says ready, and works until ctx ends or something fails. Before the parts are closed it says ready(nil).
func (a *attempt) run(ctx context.Context, ready func(*attempt)) error {
	defer func() {
		ready(nil) // nobody looks into closed parts
		a.close()
	}()
	if err := a.open(ctx); err != nil {
		return finalIfNewer(err)
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.coordinator.Run(gctx) })
	for _, l := range a.links {
		group.Go(func() error {
			select {
			case <-a.settled:
				return l.run(gctx, a.agent.fencedBy)
			case <-gctx.Done():
				return gctx.Err()
			}
		})
	}
	if a.replay > 0 {
		group.Go(func() error { return a.settleReplay(gctx) })
	}
	if a.feed != nil {
		group.Go(func() error { return a.feed.run(gctx) })
	}
	if p := a.offsite(); p != nil {
		group.Go(func() error { return a.runOffsite(gctx, p) })
	}
	group.Go(func() error { return a.engine.Run(gctx) })
	ready(a)
	if !a.held.holds() && a.replay == 0 { // it ended while this attempt opened
		a.outbox.LetGo()
	}
	err := group.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return finalIfNewer(err)
}

// open recovers storage, restores the newest valid checkpoint and makes the parts. Nothing is read from the journal yet.
func (a *attempt) open(ctx context.Context) error {
	if _, err := a.readLastRun(); isNewer(err) { // before anything is changed
		return err
	}
	dir := filepath.Join(a.agent.pipelinesDir(), a.id.String())
	if err := a.openStorage(ctx, dir); err != nil {
		return err
	}
	if a.held.holds() {
		a.outbox.HoldBack()
	}
	if err := a.startsFromSavepoint(ctx); err != nil {
		return err
	}
	if err := a.restorePending(ctx); err != nil {
		return err
	}
	a.holdReplay()
	lost, err := a.settleLost(ctx)
	if err != nil {
		return err
	}
	restored, err := a.restore(ctx, lost)
	if err != nil {
		return err
	}
	if err := a.keepLookups(a.steps); err != nil {
		return err
	}
	if err := a.openFeed(); err != nil {
		return err
	}
	if err := a.keepPlan(); err != nil {
		return err
	}
	marks, source := a.startMarks(restored)
	start := a.startPosition()
	if restored.Manifest == nil {
		lost = nil // it begins anew
		if marks = a.beginAnew(); marks != nil {
			source = emptySource{marks: marks, position: start}
			if err := a.inheritMarks(0, nil); err != nil { // nothing waits
				return err
			}
		}
	}
	if lost != nil {
		lost.first = restored.Manifest.Position + 1 // an older one, where the newest was damaged
		if marks, source, err = a.crossGap(ctx, lost, marks, source); err != nil {
			return err
		}
	}
	raised := restored.Manifest != nil && lost == nil && generationOf(marks) < a.agent.identity.LeastGeneration
	if raised {
		if marks, source, err = a.raiseGeneration(restored.Manifest, marks, source); err != nil {
			return err
		}
	}
	a.generation = generationOf(marks)
	if a.engine, err = a.load(restored.Manifest, source, start); err != nil { // attaches the streams: they must be there before the cut
		return err
	}
	if err := a.outbox.Cut(ctx, marks, a.agent.incarnation()); err != nil {
		return err
	}
	if lost != nil {
		if restored.Manifest, err = a.commitGap(ctx, restored.Manifest, lost, marks); err != nil {
			return err
		}
		a.agent.acceptGap.used(a.spec.Name.Value)
	}
	if raised {
		if restored.Manifest, err = a.commitGap(ctx, restored.Manifest, &lostRange{last: restored.Manifest.Position}, marks); err != nil {
			return err
		}
	}
	if err := a.newCoordinator(ctx, restored, snapshot.Initial{Position: start, Sinks: marks}); err != nil {
		return err
	}
	return a.noteRun(0)
}

func (a *attempt) restore(ctx context.Context, lost *lostRange) (*snapshot.Restored, error) {
	j := a.agent.journal
	first := j.First()
	if lost != nil {
		first = 0 // the operator accepted that the records behind the checkpoint are gone
	}
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{
		Store: a.store, Pipeline: a.id, Incarnations: a.agent.lineage(), Whole: a.whole, JournalFirst: first, JournalNext: j.Last() + 1,
		Accept: a.accept, AllowEmpty: a.agent.allowEmpty.given(a.spec.Name.Value), Logger: a.log,
	})
	switch {
	case errors.Is(err, snapshot.ErrNoCheckpoint):
		if a.begun() && !a.agent.allowEmpty.given(a.spec.Name.Value) {
			return nil, fmt.Errorf("%w: %w: the pipeline ran before and its checkpoints are gone (start with --allow-empty %s to begin anew from the journal)",
				errFinal, snapshot.ErrNoValidCheckpoint, a.spec.Name.Value)
		}
		return &snapshot.Restored{}, nil
	case errors.Is(err, snapshot.ErrNoValidCheckpoint):
		return nil, fmt.Errorf("%w: %w (start with --allow-empty %s to begin anew from the journal)", errFinal, err, a.spec.Name.Value)
	case err != nil:
		return nil, err
	}
	a.fallbacks = r.Fallbacks
	return r, nil
}

// accept refuses a checkpoint of another plan: changing a plan goes through a savepoint.
func (a *attempt) accept(m *snapshot.Manifest) error {
	if m.PlanHash == a.graph.Hash {
		return nil
	}
	if graph, steps, changed := a.earlierLookups(m); graph != nil {
		a.graph, a.steps, a.stale = graph, steps, changed
		a.log.Warn("lookup files changed; the pipeline goes on with the content that its checkpoint was made with", "files", changed, "checkpoint", m.ID)
		return nil
	}
	files := a.lookupFiles()
	if files != "" {
		files = " (the content of " + files + " is part of it)"
	}
	in := a.difference(m)
	if in != "" {
		in = " (" + in + ")"
	}
	return fmt.Errorf("%w: the pipeline's plan%s differs from the one that made checkpoint %d%s; undo the change, or take its state over: weir savepoint restore with a savepoint that the old plan stopped with (docs/savepoints.md), or give the pipeline a new name to start empty", errFinal, files, m.ID, in)
}

func (a *attempt) whole(ranges []snapshot.OutboxRange) error {
	list := make([]outbox.Range, len(ranges))
	for i, r := range ranges {
		list[i] = outbox.Range{UID: r.UID, Generation: r.Generation, Confirmed: r.Confirmed, Last: r.Last, ChainConfirmed: r.Chain}
	}
	err := a.outbox.Whole(list)
	if err != nil && !errors.Is(err, outbox.ErrNotWhole) && !errors.Is(err, outbox.ErrCorrupt) {
		err = fmt.Errorf("%w: %w", snapshot.ErrUnanswered, err)
	}
	return err
}

func (a *attempt) startMarks(r *snapshot.Restored) ([]pipeline.SinkMark, pipeline.StateSource) {
	if r.Manifest == nil {
		return nil, nil
	}
	return r.Manifest.Sinks, r.Source
}

// generationOf is that of the restored sinks; a new pipeline begins with 1.
func generationOf(marks []pipeline.SinkMark) uint64 {
	g := uint64(1)
	for _, m := range marks {
		g = max(g, m.Generation)
	}
	return g
}

// startPosition is where a pipeline without a checkpoint begins: never behind a record that a power cut may take, since the checkpoint
// that names the position is durable at once.
func (a *attempt) startPosition() pipeline.Position {
	if a.spec.Start == "earliest" {
		return a.agent.journal.First() - 1
	}
	return a.agent.journal.Durable()
}

// load makes the engine and reads the state into it.
func (a *attempt) load(m *snapshot.Manifest, source pipeline.StateSource, start pipeline.Position) (*exec.Pipeline, error) {
	if _, whole := source.(pipeline.WholeSource); !whole || m == nil {
		return a.newEngine(source, start)
	}
	entries := m.Base.Entries
	for _, f := range m.Frames {
		entries += f.Entries
	}
	told, end := a.work("restoring checkpoint "+strconv.FormatUint(m.ID, 10), "entries", entries)
	defer end()
	return a.newEngine(&counted{StateSource: source, told: told}, start)
}

func (a *attempt) newEngine(source pipeline.StateSource, start pipeline.Position) (*exec.Pipeline, error) {
	tables, err := a.openState(filepath.Join(a.agent.pipelinesDir(), a.id.String()))
	if err != nil {
		return nil, err
	}
	loss, err := a.readLoss()
	if err != nil {
		return nil, err
	}
	return exec.New(exec.Options{
		Graph: a.graph, Tables: tables, Restore: source, Start: start, Generation: a.generation,
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			open := a.agent.journal.Reader
			if a.spec.AtLeastOnce { // sealer keeps checkpoints behind the sync
				open = a.agent.journal.EagerReader
			}
			r, err := open(after + 1)
			if err != nil {
				return nil, err
			}
			return &ownReader{BlockReader: r, id: a.id.String()}, nil
		},
		Sink: a.openSink,
		Deliver: func(s pipeline.TaskSnapshot) {
			a.coordinator.Deliver(s)
		},
		Handled: func(n int) { a.coordinator.Records(n) },
		Loss:    loss,
		Skip:    a.skip,
		Slabs:   a.agent.slabs,
		Ask:     a.agent.wished,
		Logger:  a.log,
	})
}

func (a *attempt) newCoordinator(ctx context.Context, r *snapshot.Restored, initial snapshot.Initial) (err error) {
	inc := a.agent.incarnation()
	a.coordinator, err = snapshot.NewCoordinator(snapshot.Options{
		Config: a.checkpointConfig(),
		Identity: snapshot.Identity{
			Pipeline: a.id, PlanHash: a.graph.Hash, Generation: a.generation, Behaviours: behaviours(a.graph),
			Incarnation: snapshot.Incarnation{Major: inc.Major, Minor: inc.Minor},
		},
		Store: a.store, Engine: a.engine, Outbox: sealer{Outbox: a.outbox, journal: a.agent.journal}, Journal: a.agent.journal, Tasks: a.engine.Tasks(),
		Pressed: func() bool { return a.agent.journal.Stats().Log.Full && !a.blocked() },
		Current: r.Manifest, KeepFrom: a.keepFrom(), Logger: a.log, Wall: func() (int64, bool) { s := a.agent.clock.Stamp(); return s.Wall, s.Trusted },
	})
	if err != nil {
		return err
	}
	if r.Manifest == nil {
		if _, err = a.coordinator.CommitInitial(ctx, initial); err != nil {
			return err
		}
		a.agent.allowEmpty.used(a.spec.Name.Value)
	}
	return a.begin()
}

// begunFile in the pipeline's directory says that it once had a checkpoint: a store that was removed, or whose disk is not mounted, is
// then not taken for that of a new pipeline.
const begunFile = "begun"

func (a *attempt) begunPath() string {
	return filepath.Join(a.agent.pipelinesDir(), a.id.String(), begunFile)
}

func (a *attempt) begun() bool {
	_, err := os.Stat(a.begunPath())
	return err == nil
}

// begin notes that there is a checkpoint. Durable before the first record is read.
func (a *attempt) begin() error {
	if a.begun() {
		return nil
	}
	if err := disk.WriteFileAtomic(disk.OS, a.begunPath(), nil); err != nil {
		return fmt.Errorf("note that the pipeline has begun: %w", err)
	}
	return nil
}

func behaviours(g *plan.Graph) (list []snapshot.Behaviour) {
	for _, s := range g.Steps {
		list = append(list, snapshot.Behaviour{UID: s.UID, Version: uint64(s.Behaviour)})
	}
	return list
}

// finalCheckpoint makes a last checkpoint, so that the next start replays nothing. Failing is harmless: then it replays.
func (a *attempt) finalCheckpoint(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalCheckpointWait)
	defer cancel()
	if _, err := a.coordinator.Trigger(ctx); err != nil {
		a.log.Warn("no last checkpoint; the next start replays from the one before", "error", err)
	}
}

// close frees what open opened, in reverse; errors are only told: everything that matters is durable already.
func (a *attempt) close() {
	for _, l := range a.links {
		a.tell("close endpoint", l.close())
	}
	if a.feed != nil {
		a.tell("close endpoint", a.feed.endpoint.Close())
	}
	if a.store != nil {
		a.tell("close checkpoint store", a.store.Close())
	}
	if a.state != nil { // nobody reads a snapshot of it any more
		a.tell("close state", a.state.Close())
	}
	if a.outbox != nil {
		a.tell("close outbox", a.outbox.Close())
	}
	a.closeDead()
}

func (a *attempt) tell(what string, err error) {
	if err != nil {
		a.log.Warn("close failed", "what", what, "error", err)
	}
}

// deliverable counts released results whose upstream is not known to be away.
func (a *attempt) deliverable() (n uint64) {
	if f := a.feed; f != nil && f.sender.Metrics().LastError() == "" {
		n = f.feed.Stats().Pending
	}
	for _, l := range a.links {
		if m := l.sender.Metrics(); m.Fenced.Load() || m.LastError() != "" || m.Held() != "" {
			continue
		}
		if st := l.queue.Stats(); st.VisibleUpTo > st.ConfirmedUpTo {
			n += st.VisibleUpTo - st.ConfirmedUpTo
		}
	}
	return n
}

// blocked tells that a full sink holds a task right now: a barrier would stand behind it.
func (a *attempt) blocked() bool {
	for _, l := range a.links {
		if l.queue.Stats().Blocked {
			return true
		}
	}
	return false
}

// pushedBack tells that a sink's full queue holds the pipeline: it waits, it is not stuck.
func (a *attempt) pushedBack() bool {
	for _, l := range a.links {
		if st := l.queue.Stats(); st.Blocked || st.Waiting > 0 {
			return true
		}
	}
	return false
}
