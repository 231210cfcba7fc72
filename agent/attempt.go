package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/deadletter"
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
	live        bool       // but for those of sinks with probation: live
	graph       *plan.Graph
	id          snapshot.UUID
	log         *slog.Logger
	outbox      *outbox.Outbox
	store       snapshot.Store
	dead        *deadletter.Store
	deadLock    *sync.Mutex     // held while dead is open
	feed        *links.DeadFeed // nil: dead letters go nowhere
	state       *pebblekv.DB    // nil: the backend is memory
	engine      *exec.Pipeline
	coordinator *snapshot.Coordinator
	links       []*links.Link
	generation  uint64    // of the sinks in this attempt
	progress    stillness // of the position handled
	turns       stillness // of the coordinator's loop
	barriers    stillness // of the checkpoint under way
	fallbacks   []snapshot.Fallback
	skip        []exec.Poison // records that steps go on without
	steps       []*plan.StepSpec
	replay      pipeline.Position // results of records up to there are made first, and then sent; 0: see replay.go
	settled     chan struct{}     // closed once links may begin
	broken      chan error        // holds why a log takes nothing any more; see storageFailed
	stale       []string          // lookup files that changed since the checkpoint; it goes on with their earlier content
}

// liveSinks are those whose results leave while a program is on trial.
func liveSinks(g *plan.Graph) (uids []string) {
	for _, s := range g.Sinks {
		if s.Spec.Probation == "live" {
			uids = append(uids, s.UID)
		}
	}
	return uids
}

// finalCheckpointWait bounds the last checkpoint of a graceful stop: systemd's TimeoutStopSec is 90 s by default.
const finalCheckpointWait = 20 * time.Second

// run joins the parts, says ready, and works until ctx ends or something fails. Before the parts are closed it says ready(nil).
func (a *attempt) run(ctx context.Context, ready func(*attempt)) error {
	a.step()
	defer func() {
		a.step()
		ready(nil) // nobody looks into closed parts
		a.close()
	}()
	if err := a.open(ctx); err != nil {
		return finalIfNewer(err)
	}
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return a.coordinator.Run(gctx) })
	group.Go(func() error { return a.watchStorage(gctx) })
	if a.state != nil {
		defer context.AfterFunc(gctx, a.state.Release)()
	}
	for _, l := range a.links {
		group.Go(func() error {
			select {
			case <-a.settled:
				return l.Run(gctx, a.agent.fencedBy)
			case <-gctx.Done():
				return gctx.Err()
			}
		})
	}
	if a.replay > 0 {
		group.Go(func() error { return a.settleReplay(gctx) })
	}
	if a.feed != nil {
		group.Go(func() error { return a.feed.Run(gctx) })
	}
	if p := a.offsite(); p != nil {
		group.Go(func() error { return a.runOffsite(gctx, p) })
	}
	group.Go(func() error { return a.engine.Run(gctx) })
	ready(a)
	a.agent.timersChanged()               // those that were restored
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
	if err := a.refuseNewer(); err != nil {
		return err
	}
	dir := filepath.Join(a.agent.pipelinesDir(), a.id.String())
	if err := a.openStorage(ctx, dir); err != nil {
		return err
	}
	plantedHangingStart()
	if a.held.holds() {
		var live []string
		if a.live {
			live = liveSinks(a.graph)
		}
		a.outbox.HoldBack(live...)
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
	a.step()
	restored, err := a.restore(ctx, lost)
	if err != nil {
		return err
	}
	a.step()
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
	if a.engine, err = a.load(ctx, restored.Manifest, source, start); err != nil { // attaches the streams: they must be there before the cut
		return err
	}
	a.step()
	if err := a.outbox.Cut(ctx, marks, a.agent.incarnation()); err != nil {
		return err
	}
	a.step()
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
	return a.noteRun(0, 0)
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
		a.tell("close endpoint", l.Close())
	}
	if a.feed != nil {
		a.tell("close endpoint", a.feed.Close())
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
	a.step()
	if err != nil {
		a.log.Warn("close failed", "what", what, "error", err)
	}
}
