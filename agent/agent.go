// Package agent is the daemon: it assembles journal, broker sessions, pipelines, snapshots and uplinks from a config, keeps the
// pipelines running, answers on its socket, and stops in order.
//
// Everything durable lies under state_dir, which one process holds at a time: journal/, pipelines/UUID/ (checkpoints, outbox,
// dead letters) and pipelines.json. A pipeline that fails leaves the others alone; a failed journal ends the agent, since
// nothing can be acknowledged any more, and the service manager starts it again through recovery.
package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/systemd"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/uplink/httpsink"
)

// Options are what the command line adds to the config.
type Options struct {
	Logger *slog.Logger
	// AllowEmpty names pipelines that may start empty though none of their checkpoints is valid.
	AllowEmpty map[string]bool
	// AcceptGap names pipelines that may go on behind records that a full journal let go.
	AcceptGap map[string]bool
	// TrustClock takes the wall clock for right without asking.
	TrustClock bool
	// NewBoard: state_dir was moved to this board on purpose (RULES 28).
	NewBoard bool

	claims       claims  // of tests
	hasty        bool    // planted by tests: plans on probation are uploaded
	replayUnheld bool    // planted by tests: streams are opened before the results of shipped records are made
	fs           disk.FS // nil: disk.OS
	looks        bool    // a check that changes nothing: fs keeps what is written to itself, and what is written beside it is opened for reading
}

// Agent is one running daemon.
type Agent struct {
	config     *config.Config
	options    Options
	fs         disk.FS // disk.OS, but for a look that changes nothing
	working    working
	log        *slog.Logger
	lock       *Lock
	registry   *Registry
	identity   *identity.Record
	fence      *fence
	claims     claims    // nil: no central store gives out majors
	offsites   *offsites // nil: no central store
	file       string    // of the config that it was started with; what runs may be another (applier)
	roster     atomic.Pointer[roster]
	applier    *applier
	spawn      func(*supervisor) // starts a supervisor; Run sets it
	connect    func(*session)    // starts a session; Run sets it
	journal    *journal.Journal
	committing stillness // of the journal's committer
	clock      *Clock
	transports *httpsink.Transports
	slabs      *pipeline.Slabs
	codec      *log.Codec // of all pipelines' logs; the journal has its own, so that it waits for none of them
	started    time.Time
	spaceEvery time.Duration // spaceCheckEvery; a test looks itself, when it is ready
	rebirths   *rebirths
	failed     chan error // holds the journal's failure
	refused    chan error // holds why no pipeline can run
	allowEmpty *permit
	acceptGap  *permit
	earlyMu    sync.Mutex
	deadLocks  map[string]*sync.Mutex // by pipeline: who has its dead letters open; earlyMu guards the map
	diverged   divergences
	requeueing sync.Mutex                // one requeue at a time
	die        func(at string)           // planted by tests: called between the steps of a requeue
	early      map[string]snapshot.Store // opened before the journal, taken over by the first attempt; see highestCheckpoint
}

// New opens state_dir and recovers the journal. Nothing is connected yet. Close frees it when Run is not called.
func New(cfg *config.Config, o Options) (*Agent, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{config: cfg, file: cfg.File, options: o, log: o.Logger, started: time.Now(), spaceEvery: spaceCheckEvery, codec: log.NewCodec(), transports: &httpsink.Transports{}, slabs: &pipeline.Slabs{}, failed: make(chan error, 1), refused: make(chan error, 1),
		allowEmpty: newPermit(o.AllowEmpty), acceptGap: newPermit(o.AcceptGap), fence: newFence(), early: map[string]snapshot.Store{}, deadLocks: map[string]*sync.Mutex{}, die: plantedDeath}
	if a.fs = o.fs; a.fs == nil {
		a.fs = disk.OS
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Agent) open() (err error) {
	dir := a.config.StateDir.Value
	if a.lock, err = LockStateDir(dir); err != nil {
		return err
	}
	if err := refuseCutShort(dir); err != nil {
		return err
	}
	if a.applier, err = a.openApplier(); err != nil { // which config runs
		return err
	}
	if a.registry, err = OpenRegistry(a.fs, dir); err != nil {
		return err
	}
	used := a.registry.Gateway != ""
	name, err := gatewayName(a.config.Gateway.Value, a.registry.Gateway, os.ReadFile)
	if err != nil {
		return err
	}
	a.registry.SetGateway(name)
	if a.claims = a.options.claims; a.claims == nil && !a.looks() {
		if a.claims, err = openClaims(a.config, name); err != nil {
			return err
		}
	}
	if err := a.settleIdentity(used); err != nil {
		return err
	}
	r := &roster{config: a.config, ways: a.newWays(a.config.Links)}
	runs := a.runsOf(a.config, r.ways)
	if err := a.registry.Adopt(a.applier.names(runs)); err != nil {
		return err
	}
	if err := a.openJournal(filepath.Join(dir, "journal"), max(a.highestCheckpoint(runs), a.applier.highest())); err != nil {
		return err
	}
	a.applier.hold()
	if err := a.registry.SetJournal(a.journal.Last() == 0); err != nil {
		return err
	}
	if r.sessions, err = a.newSessions(a.applier.subscribed(a.config)); err != nil {
		return err
	}
	a.roster.Store(r)
	if !a.looks() {
		if err := a.openCentral(); err != nil {
			return err
		}
	}
	a.rebirths = newRebirths(a.journal.Last(), a.publish, a.log)
	a.journal.SetCarry(a.carry)
	all := *r
	for _, p := range runs {
		p.held = a.applier.heldBack(p.Name.Value)
		s, err := a.supervise(p)
		if err != nil {
			return err
		}
		all.supervisors = append(all.supervisors, s)
	}
	a.roster.Store(&all)
	return nil
}

// journalConfig takes the settings over.
func journalConfig(cfg *config.Config) log.Config {
	c, j := log.Default(), cfg.Journal
	c.MaxBytes, c.ReserveBytes, c.Linger, c.SegmentBytes, c.Compress = j.MaxBytes, j.ReserveBytes, j.Linger, j.SegmentBytes, j.Compress
	if j.UnsyncedBytes > 0 {
		c.MaxUnsynced = int(j.UnsyncedBytes)
	}
	return c
}

// openJournal recovers the journal; the clock goes on from its last stamp.
func (a *Agent) openJournal(dir string, after pipeline.Position) error {
	c := journalConfig(a.config)
	clock := &lateClock{}
	jr, recovery, err := journal.Open(journal.Options{FS: a.fs, Dir: dir, Config: c, Stamp: clock.stamp, After: after, Logger: a.log})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	a.journal = jr
	a.clock = NewClock(jr.LastStamp(), buildTimeMs(), a.options.TrustClock)
	clock.set(a.clock)
	a.log.Info("journal recovered", "first", uint64(jr.First()), "last", uint64(jr.Last()), "recovery", recovery)
	jr.OnDurable(func(_ pipeline.Position, err error) {
		if err != nil {
			select {
			case a.failed <- err:
			default:
			}
		}
	})
	return nil
}

// supervise makes the supervisor of a run; it is not started.
func (a *Agent) supervise(p run) (*supervisor, error) {
	id, err := parseUUID(a.registry.UUID(p.Name.Value))
	if err != nil {
		return nil, fmt.Errorf("registry: pipeline %s: %w", p.Name.Value, err)
	}
	if err := a.offsites.enlist(id, p.Name.Value, a.config.StateDir.Value); err != nil {
		return nil, err
	}
	// Until its checkpoint is known the pipeline needs all that the journal has.
	a.journal.Retain(id.String(), a.journal.First()-1)
	logger := a.log.With("pipeline", p.Name.Value)
	var s *supervisor
	s = newSupervisor(p.Name.Value, strategyOf(&p.Restart), a.log, func(ctx context.Context, ready func(*attempt)) error {
		if p.refused != nil {
			return p.refused
		}
		if err := a.fence.err(); err != nil { // an apply that was under way may still start plans
			return fmt.Errorf("%w: %w", errFinal, err)
		}
		at := &attempt{agent: a, spec: p.Pipeline, config: p.config, ways: p.ways, held: p.held, graph: p.Graph, steps: p.Steps, id: id, log: logger, skip: slices.Clone(s.poisons.skip)}
		return at.run(ctx, ready)
	})
	s.spec, s.base, s.poisons.tolerate, s.refused = p, p.Base(), p.Tolerate, a.pipelineRefused
	s.parked = a.fence.err()
	return s, nil
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

// Run works until ctx ends, then stops in order: sessions (their messages are durable and acknowledged), a last checkpoint of each
// pipeline, uplinks. It returns nil after a stop that was asked for.
func (a *Agent) Run(ctx context.Context) error {
	defer a.Close()
	server, err := api.Listen(a.config.API.Socket, a, a.log)
	if err != nil {
		return err
	}
	scraped, err := a.listenMetrics()
	if err != nil {
		return err
	}
	work, stopWork := context.WithCancel(context.WithoutCancel(ctx))
	defer stopWork()
	intake, stopIntake := context.WithCancel(work)
	defer stopIntake()
	group, gctx := errgroup.WithContext(work)
	group.Go(func() error { return server.Run(gctx) })
	if scraped != nil {
		group.Go(func() error { return scraped.Run(gctx) })
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
		return err
	}
	for _, s := range a.all() {
		a.spawn(s)
	}
	sources := &intakes{broken: make(chan error, 1)}
	a.connect = func(s *session) { sources.start(intake, s) }
	for _, s := range a.sessions() {
		a.connect(s)
	}
	group.Go(func() error { return a.applier.run(gctx) })
	group.Go(func() error {
		t := &ticker{clock: a.clock, journal: a.journal, deadlines: a.nextDeadline}
		return t.run(gctx)
	})
	group.Go(func() error { return a.keepSpace(gctx) })
	group.Go(func() error { return a.rebirths.run(gctx) })
	group.Go(func() error { return a.watchClaim(gctx) })
	group.Go(func() error { return a.standDown(gctx, stopIntake, func() { _ = sources.wait() }) })
	if a.fence.err() == nil {
		group.Go(func() error { return a.offsites.run(gctx) })
	}
	group.Go(func() error { return systemd.Run(gctx, a.Ready, a.Health, a.log) })
	group.Go(func() error {
		select {
		case <-ctx.Done():
			a.log.Info("agent is stopping: sessions, last checkpoints, deliveries")
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
	err = group.Wait()
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	a.log.Info("agent stopped", "error", err)
	return err
}

// watchFailures ends the agent when the journal fails, or when no pipeline can run.
func (a *Agent) watchFailures(ctx context.Context) error {
	select {
	case err := <-a.failed:
		return fmt.Errorf("journal: %w", err)
	case err := <-a.refused:
		return err
	case <-ctx.Done():
		return nil
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
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deliverWait)
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

// Close frees state_dir. Run does it too.
func (a *Agent) Close() error {
	var err error
	err = errors.Join(a.closeEarly(), a.offsites.close())
	if a.claims != nil {
		err = errors.Join(err, a.claims.Close())
	}
	if a.journal != nil {
		err = errors.Join(err, a.journal.Close())
		a.journal = nil
	}
	if a.lock != nil {
		err = errors.Join(err, a.lock.Close())
		a.lock = nil
	}
	return err
}

func (a *Agent) pipelinesDir() string { return filepath.Join(a.config.StateDir.Value, "pipelines") }

// looks tells that nothing may be changed.
func (a *Agent) looks() bool { return a.options.looks }

func (a *Agent) gateway() string { return a.registry.Gateway }

func isFull(err error) bool { return errors.Is(err, pipeline.ErrJournalFull) }

var _ snapshot.Journal = (*journal.Journal)(nil)
