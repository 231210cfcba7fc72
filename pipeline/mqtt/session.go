package mqtt

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Session is one client id at one broker.
//
// Run's goroutine owns everything without a comment. mu guards what the tap's reader, Carry and Stats share; the reader is
// the only one that changes table and order while a connection lives.
type Session struct {
	config  SessionConfig
	journal pipeline.Journal
	log     *slog.Logger
	hooks   Hooks
	wanted  []subscription // set before Run and not written again

	mu         sync.Mutex
	table      table
	order      idOrder
	machine    machine
	granted    []subscription // what the broker holds, as far as the journal knows; nil = unknown or nothing
	grantedPos pipeline.Position
	lastPos    pipeline.Position // of the last message record
	problem    string
	takeover   bool
	since      time.Time // of the present state
	rebuilt    bool
	next       anchoring
	anchors    anchorPolicy // set before Run

	router  *router  // the tap's reader owns it
	limits  []limits // the tap's reader owns it
	flaps   flaps
	offline time.Time // since when, for the queue hint

	current    atomic.Pointer[tap]
	acked      ackedMarks
	receivedAt atomic.Int64 // Unix ms of the last message
	counters   counters
	failed     chan struct{} // closed by fail
	failure    error         // set before failed is closed
	failOnce   sync.Once
	full       atomic.Bool
	fullChange chan struct{}
	requests   sync.WaitGroup // goroutines of ask

	drops    dropWatch
	patience dropPatience // set before Run
	heldAt   atomic.Int64 // when the session was last not ready, or read slowly: ns since born
	born     time.Time

	fault faults
}

// Hooks are called by Run's goroutine; nil ones are left out. They must not block, but for Permit.
type Hooks struct {
	// Permit is asked before each CONNECT and may take some seconds. An error is why there is none now; it is asked again (RULES 29).
	Permit func(ctx context.Context) error
	// Ready is called each time the broker holds exactly the filters of the config.
	Ready func()
	// Problem is called with a sentence when the session cannot become ready, "" when that is over.
	Problem func(text string)
}

// faults are bugs that tests plant, or the environment in a build with -tags weirfault; none is ever set elsewhere.
type faults struct {
	ackEarly         bool // acknowledge before the commit
	windowByPosition bool // W counts journal positions (RULES 1)
	idAlone          bool // the packet id alone is the key
	dupOnly          bool // only DUP=1 is compared (RULES 2)
	releaseErases    bool // a release erases the entry (RULES 3)
	trustPresent     bool // session_present=1 is taken for proof (RULES 4)
	subscribeEarly   bool // SUBSCRIBE does not wait for the commit (RULES 5)
	noSweep          bool // an unknown session keeps its table (RULES 6)
	sweepOnce        bool // the first PINGRESP ends the sweep, though more may be sent again behind it
	releaseAlways    bool // every PUBREL writes a record (RULES 7)
	noRelease        bool // no PUBREL writes a record
	compEarly        bool // PUBCOMP does not wait
	runRepeats       bool // an id may stand twice in a run
	runAges          bool // ages do not count the records that the run itself makes
	anchorForgets    bool // an anchor has no entries
	anchorAges       bool // the ages in an anchor are not those at its start
	anchorTrimmed    bool // an anchor counts though its start is trimmed
	anchorEarly      bool // an anchor is taken before the records below its start are entered
}

// ackedMarks are the positions up to which the last two writes of acknowledgements reached.
type ackedMarks struct{ last, previous atomic.Uint64 }

func (m *ackedMarks) commit(pos pipeline.Position) {
	m.previous.Store(m.last.Load())
	m.last.Store(uint64(pos))
}
func (m *ackedMarks) upTo() pipeline.Position   { return pipeline.Position(m.last.Load()) }
func (m *ackedMarks) before() pipeline.Position { return pipeline.Position(m.previous.Load()) }

// NewSession checks the config; it opens nothing. Errors wrap ErrConfig or topic.ErrFilter.
func NewSession(config SessionConfig, journal pipeline.Journal, log *slog.Logger, hooks Hooks) (*Session, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	s := &Session{
		config: config, journal: journal, log: log.With("broker", config.Name), hooks: hooks,
		failed: make(chan struct{}), fullChange: make(chan struct{}, 1), since: time.Now(), offline: time.Now(),
		patience: defaultDropPatience, born: time.Now(), fault: plantedFaults(), anchors: plantedAnchors(defaultAnchors(config.DedupWindow)),
	}
	s.config.Sources = slices.Clone(config.Sources)
	filters := make([]string, len(config.Sources))
	for i, c := range config.Sources {
		filters[i] = c.Filter
		s.wanted = append(s.wanted, subscription{filter: c.Filter, qos: c.QoS})
		s.limits = append(s.limits, newLimits(c, time.Now()))
	}
	s.router = newRouter(filters)
	return s, nil
}

// Run keeps the session connected until ctx ends; then it commits, acknowledges, disconnects with the session kept, and
// returns nil. It returns an error only when the journal failed or its records cannot be decoded: nothing is acknowledged
// after that. Everything the broker does, refusals included, is retried and shown in Stats. Call it once.
func (s *Session) Run(ctx context.Context) error {
	for _, w := range s.config.Warnings() {
		s.log.Warn("setting weakens what is promised", "what", w)
	}
	s.mu.Lock()
	rebuilt := s.rebuilt
	s.mu.Unlock()
	if !rebuilt {
		if err := Rebuild(s.journal, s); err != nil {
			return err
		}
	}
	// RULES 8: what the last process left in the page cache is durable before anything is acknowledged on its strength.
	if err := s.journal.Sync(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("sync journal: %w", err)
	}
	defer s.journal.OnDurable(func(_ pipeline.Position, err error) {
		if err != nil {
			s.fail(err)
			return
		}
		if t := s.current.Load(); t != nil {
			t.acks.wake()
		}
	})()
	defer s.journal.OnFull(func(full bool) {
		s.full.Store(full)
		select {
		case s.fullChange <- struct{}{}:
		default:
		}
	})()
	defer s.requests.Wait()
	if s.config.DroppedTopic != "" {
		watch, stop := context.WithCancel(ctx)
		var watching sync.WaitGroup
		watching.Go(func() { s.watchDrops(watch) })
		defer watching.Wait()
		defer stop()
	}
	for {
		if s.full.Load() && !s.pause(ctx, true) {
			return s.hasFailed()
		}
		if err := s.writeAnchor(); err != nil { // a broker that is away must not make the next start slow
			s.fail(err)
			return s.hasFailed()
		}
		if err := s.permit(ctx); err != nil {
			s.setProblem(err.Error())
			if !s.pause(ctx, false) {
				return s.hasFailed()
			}
			continue
		}
		end, err := s.connection(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case s.hasFailed() != nil:
			return s.hasFailed()
		}
		s.report(end, err)
		if !s.pause(ctx, end.full) {
			return s.hasFailed()
		}
	}
}

func (s *Session) permit(ctx context.Context) error {
	if s.hooks.Permit == nil {
		return nil
	}
	return s.hooks.Permit(ctx)
}

// report logs the end of a connection and moves the back-off.
func (s *Session) report(end connectionEnd, err error) {
	if end.full {
		s.counters.full.Add(1)
		s.log.Warn("journal is full: disconnected, the broker keeps the session")
		s.setProblem("journal is full")
		s.flaps = flaps{}
		return
	}
	if !end.connected {
		s.counters.connectFailures.Add(1)
	}
	before := s.flaps
	s.flaps = s.flaps.after(end.ending)
	if s.flaps.alarm && !before.alarm {
		s.counters.takeovers.Add(1)
		s.log.Error("client id in use elsewhere? the broker closes the connection right after connecting", "client_id", s.config.ClientID)
	}
	s.mu.Lock()
	s.takeover = s.flaps.alarm
	s.mu.Unlock()
	text := "connection ended"
	if err != nil {
		text = err.Error()
	}
	if s.flaps.alarm {
		text = "client id in use elsewhere: " + text
	}
	s.setProblem(text)
	s.log.Info("connection ended", "err", err, "connected", end.connected, "lived", end.lived, "attempts", s.flaps.attempts)
}

// pause waits for the next connect; while the journal is full, until it is not, but looks again every ReconnectMax. It
// returns false when Run is to end.
func (s *Session) pause(ctx context.Context, full bool) bool {
	wait := s.flaps.wait(s.config.ReconnectMin, s.config.ReconnectMax, s.config.TakeoverWait, rand.Float64())
	if full {
		wait = s.config.ReconnectMax
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return true
		case <-s.fullChange:
			if full && !s.full.Load() {
				return true
			}
		case <-ctx.Done():
			return false
		case <-s.failed:
			return false
		}
	}
}

// fail ends Run with err: the journal cannot be trusted any more (R10). Later calls do nothing.
func (s *Session) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = fmt.Errorf("broker %s: journal: %w", s.config.Name, err)
		close(s.failed)
		if t := s.current.Load(); t != nil {
			t.Conn.Close()
		}
	})
}

func (s *Session) hasFailed() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// step moves the state machine.
func (s *Session) step(e event) action {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.machine.phase
	var do action
	s.machine, do = next(s.machine, e)
	if s.machine.phase != was {
		s.since = time.Now()
		s.holdsBack() // also when it becomes ready: it was not
	}
	return do
}

// connectGoesOut is called by the tap just before CONNECT is written.
func (s *Session) connectGoesOut() {
	s.counters.connects.Add(1)
	s.step(evConnect)
}

func (s *Session) phase() phase {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.phase
}

func (s *Session) setProblem(text string) {
	s.mu.Lock()
	changed := s.problem != text
	s.problem = text
	s.mu.Unlock()
	if changed && s.hooks.Problem != nil {
		s.hooks.Problem(text)
	}
}

// sameSubscriptions compares filter sets; the order does not matter.
func sameSubscriptions(a, b []subscription) bool {
	if len(a) != len(b) {
		return false
	}
	for _, x := range a {
		if !slices.Contains(b, x) {
			return false
		}
	}
	return true
}

var errConnectionLost = errors.New("connection lost")
