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

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/clock"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/flash"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/links"
	"github.com/weirstream/weir/agent/offsite"
	"github.com/weirstream/weir/agent/restart"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/takeover"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/boards"
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
	// Machine is what the hardware says of itself: a config takes its board's defaults from it. nil: every config has the built-in ones.
	Machine *boards.Facts

	// Clocks are where the time comes from; nil: this machine's.
	Clocks clock.Machine

	// Backend puts programs into place; nil: none is installed from here.
	Backend upgrade.Backend
	// ControlOnly: no broker is connected and no pipeline runs; another program may be installed.
	ControlOnly bool

	claims       offsite.Claims        // of tests
	hasty        bool                  // planted by tests: plans on probation are uploaded
	crash        func(at string) error // planted by tests: an error is a crash behind that step of a restore
	uncut        bool                  // planted by tests: going back leaves what was made behind the savepoint in the outbox
	leftCounts   bool                  // planted by tests: what an earlier try of a first start has left counts as results of its own
	replayUnheld bool                  // planted by tests: streams are opened before the results of shipped records are made
	leds         string                // of tests: a directory in place of /sys/class/leds
	system       flash.System          // of tests
	flashEvery   time.Duration         // of tests: how often what is written to flash is looked at and decided on
	fs           disk.FS               // nil: disk.OS
	checks       bool                  // a check or a repair: who speaks for this gateway is not settled, and the central store is not asked (checkidentity.go)
	still        bool                  // it will not run, and listens nowhere
	late         bool                  // planted by tests: it listens when all is recovered
	deaf         bool                  // planted by tests: an attempt goes on when a log of it takes nothing any more
	oneReserve   bool                  // planted by tests: all logs leave the same space free
	looks        bool                  // a check that changes nothing: fs keeps what is written to itself, and what is written beside it is opened for reading
}

// Agent is one running daemon.
type Agent struct {
	config   *config.Config
	options  Options
	fs       disk.FS // disk.OS, but for a look that changes nothing
	working  working
	log      *slog.Logger
	lock     *statedir.Lock
	server   *api.Server // nil: it will not run
	scraped  *api.Server // nil: so, or metrics have no port of their own
	registry *statedir.Registry
	identity *identity.Record
	fence    *fence
	claims   offsite.Claims // nil: no central store gives out majors
	offsites *offsites      // nil: no central store
	file     string         // of the config that it was started with; what runs may be another (applier)
	roster   atomic.Pointer[roster]
	applier  *applier
	upgrader *upgrader
	fleet    *fleetSide        // nil: nobody directs this gateway from afar
	lines    *lastLines        // of the log, for diagnostics; nil: none are kept
	changing sync.Mutex        // held while an apply or an upgrade is recorded: they exclude each other
	spawn    func(*supervisor) // starts a supervisor; Run sets it
	connect  func(*session)    // starts a session; Run sets it
	journal  *journal.Journal
	unopened error   // why the journal is one in memory in place of what lies in state_dir; nil: it is not
	unusable []error // what else a rescue goes on without
	// unregistered: the registry is one of those, so that the identities of pipelines are made up.
	unregistered bool
	committing   stillness // of the journal's committer
	clock        *clock.Clock
	late         lateClock // the same, for what needs one before the journal is open
	transports   *httpsink.Transports
	slabs        *pipeline.Slabs
	codec        *log.Codec // of all pipelines' logs; the journal has its own, so that it waits for none of them
	started      time.Time
	timers       chan struct{} // takes one when a pipeline's timers may have changed: the ticker's
	spaceEvery   time.Duration // spaceCheckEvery; a test looks itself, when it is ready
	lastWait     time.Duration // deliverWait; a test waits for all that is left
	rebirths     *rebirths
	flash        *flash.Keeper // nil: a look that changes nothing, or a repair
	failed       chan error    // holds the journal's failure
	refused      chan error    // holds why no pipeline can run
	allowEmpty   *permit
	acceptGap    *permit
	earlyMu      sync.Mutex
	deadLocks    map[string]*sync.Mutex // by pipeline: who has its dead letters open; earlyMu guards the map
	diverged     links.Divergences
	requeueing   sync.Mutex                // one requeue at a time
	die          func(at string)           // planted by tests: called between the steps of a requeue
	early        map[string]snapshot.Store // opened before the journal, taken over by the first attempt; see highestCheckpoint
}

// New opens state_dir, binds the API's socket and recovers the journal. Nothing is connected, or answered, yet. Close frees it when Run is not called. What does not get as far as
// the recovery has changed nothing on the disk.
func New(cfg *config.Config, o Options) (*Agent, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	a := &Agent{config: cfg, file: cfg.File, options: o, log: o.Logger, started: time.Now(), spaceEvery: spaceCheckEvery, lastWait: deliverWait, codec: log.NewCodec(), transports: &httpsink.Transports{}, slabs: &pipeline.Slabs{}, failed: make(chan error, 1), refused: make(chan error, 1), timers: make(chan struct{}, 1),
		allowEmpty: newPermit(o.AllowEmpty), acceptGap: newPermit(o.AcceptGap), fence: newFence(), early: map[string]snapshot.Store{}, deadLocks: map[string]*sync.Mutex{}, die: plantedDeath}
	if a.fs = o.fs; a.fs == nil {
		a.fs = disk.OS
	}
	if cfg.Fleet.Channel.Value != "" {
		a.log, a.lines = keepLines(a.log)
	}
	if err := a.settleBoard(cfg); err != nil {
		return nil, err
	}
	if err := a.open(); err != nil {
		return nil, errors.Join(advise(a.upgrader.unstarted(err)), a.Close())
	}
	return a, nil
}

func (a *Agent) open() (err error) {
	dir := a.config.StateDir.Value
	if a.lock, err = statedir.AcquireUnsigned(dir); err != nil {
		return err
	}
	if a.lock.User != 0 {
		a.log.Info("root works as the user that state_dir belongs to", "user", a.lock.User)
	}
	if err := takeover.RefuseCutShort(dir); err != nil {
		return err
	}
	if a.upgrader, err = a.openUpgrader(); err != nil { // which program runs
		return err
	}
	if a.applier, err = a.openApplier(); err != nil { // which config runs
		if err = a.standIn("which config runs", err); err != nil {
			return err
		}
		a.applier = a.newApplier()
	}
	used, err := a.openRegistry(dir)
	if err != nil {
		return err
	}
	name, err := statedir.GatewayName(a.config.Gateway.Value, a.registry.Gateway, os.ReadFile)
	if err != nil {
		return err
	}
	a.registry.SetGateway(name)
	if a.claims = a.options.claims; a.claims == nil && !a.checks() {
		if a.claims, err = offsite.OpenClaims(a.config, name, a.late.wall); err != nil {
			return err
		}
	}
	settle, err := a.readIdentity(used)
	if err != nil {
		if settle, err = a.unidentified(err); err != nil {
			return err
		}
	}
	if a.runs() && !a.options.late {
		if err := a.admit(); err != nil {
			return err
		}
	}
	a.lock.Sign()
	if err := a.upgrader.settle(); err != nil { // from here on it is written
		return err
	}
	if err := settle(); err != nil {
		return err
	}
	r := &roster{config: a.config, ways: a.newWays(a.config.Links)}
	runs := a.runsOf(a.config, r.ways)
	if err := a.registry.Adopt(a.applier.names(runs)); err != nil {
		return err
	}
	if err := a.openJournal(filepath.Join(dir, "journal"), max(a.highestCheckpoint(runs), a.applier.highest(), a.upgrader.highest())); err != nil {
		return err
	}
	a.applier.hold()
	a.upgrader.hold()
	if a.unopened == nil {
		if err := a.registry.SetJournal(a.journal.Last() == 0); err != nil {
			return err
		}
	}
	if r.sessions, err = a.newSessions(a.applier.subscribed(a.config)); err != nil {
		return err
	}
	a.roster.Store(r)
	if !a.checks() {
		if err := a.openCentral(); err != nil {
			return err
		}
	}
	a.rebirths = newRebirths(a.journal.Last(), a.publish, a.log)
	a.journal.SetCarry(a.carry)
	all := *r
	for _, p := range runs {
		if p.held = a.applier.heldBack(p.Name.Value); p.held == nil {
			p.held, p.live = a.upgrader.heldBack(p.Name.Value)
		}
		s, err := a.supervise(p)
		if err != nil {
			return err
		}
		all.supervisors = append(all.supervisors, s)
	}
	a.roster.Store(&all)
	if !a.checks() {
		a.flash = a.openFlash()
	}
	if a.runs() && a.options.late {
		if err := a.admit(); err != nil {
			return err
		}
	}
	a.openFleet()
	return nil
}

// supervise makes the supervisor of a run; it is not started.
func (a *Agent) supervise(p run) (*supervisor, error) {
	id, err := statedir.ParseUUID(a.registry.UUID(p.Name.Value))
	if err != nil {
		return nil, fmt.Errorf("registry: pipeline %s: %w", p.Name.Value, err)
	}
	if !a.unregistered {
		if err := a.offsites.enlist(id, p.Name.Value, a.config.StateDir.Value); err != nil {
			return nil, err
		}
	}
	// Until its checkpoint is known the pipeline needs all that the journal has.
	a.journal.Retain(id.String(), a.journal.First()-1)
	logger := a.log.With("pipeline", p.Name.Value)
	var s *supervisor
	s = newSupervisor(p.Name.Value, restart.StrategyOf(&p.Restart), a.log, func(ctx context.Context, ready func(*attempt)) error {
		if p.refused != nil {
			return p.refused
		}
		if err := a.fence.err(); err != nil { // an apply that was under way may still start plans
			return fmt.Errorf("%w: %w", errFinal, err)
		}
		at := &attempt{agent: a, spec: p.Pipeline, config: p.config, ways: p.ways, held: p.held, live: p.live, graph: p.Graph, steps: p.Steps, id: id, log: logger, skip: slices.Clone(s.poisons.Skip), broken: make(chan error, 1)}
		return at.run(ctx, ready)
	})
	s.spec, s.base, s.poisons.Tolerate, s.refused = p, p.Base(), p.Tolerate, a.pipelineRefused
	if s.parked = a.fence.err(); s.parked == nil {
		s.parked = a.upgrader.parks(p.Name.Value)
	}
	return s, nil
}

// Close frees state_dir. Run does it too.
func (a *Agent) Close() error {
	var err error
	err = errors.Join(a.server.Close(), a.scraped.Close(), a.closeEarly(), a.offsites.close())
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

// checks tells that nothing beside state_dir may be touched, and that the agent will not run.
func (a *Agent) checks() bool { return a.options.checks || a.options.looks }

// runs tells that the agent is to run.
func (a *Agent) runs() bool { return !a.checks() && !a.options.still }

func (a *Agent) gateway() string { return a.registry.Gateway }

var _ snapshot.Journal = (*journal.Journal)(nil)
