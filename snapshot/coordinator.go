package snapshot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Identity is what a coordinator writes into each manifest and does not change while it runs.
type Identity struct {
	Pipeline    UUID
	PlanHash    [32]byte
	Generation  uint64
	Incarnation Incarnation
	Behaviours  []Behaviour
}

// Options of a Coordinator. Config, Store, Engine, Tasks and Identity are required.
type Options struct {
	Config   Config
	Identity Identity
	Store    Store
	Engine   Engine
	Outbox   Outbox  // nil: the pipeline has no sinks
	Journal  Journal // nil: nothing is retained or trimmed (replay)
	Holder   string  // name at the journal; "": the pipeline's UUID
	Tasks    []string
	// Pressed tells that the journal has no room. Then checkpoints are written though nothing changed, until the retained ones hold nothing
	// back that is worked in: no message would come any more to change something. nil: never.
	Pressed func() bool
	// Current is the checkpoint that was restored. nil: call CommitInitial before Run.
	Current *Manifest
	// KeepFrom is a checkpoint since which changes are kept from the beginning on, see Coordinator.KeepFrom.
	KeepFrom uint64
	// Ledger gives the blob for the manifest at barrier b. It is called once all tasks have delivered.
	Ledger func(b pipeline.Barrier) []byte
	// Wall gives Unix ms and whether the clock is trusted; nil: the system clock, untrusted.
	Wall   func() (ms int64, trusted bool)
	Logger *slog.Logger
}

// Checkpoint is what Trigger reports.
type Checkpoint struct {
	ID       uint64
	Position pipeline.Position
	Manifest *Manifest // not to be changed
}

// Coordinator makes the checkpoints of one pipeline. Run's goroutine owns every field without a comment of its own.
type Coordinator struct {
	o     Options
	log   *slog.Logger
	meter meter

	records   atomic.Uint64 // journal records read since the last barrier
	stretched atomic.Int64  // the least interval in ns (Stretch)

	beatTurns, beatStep atomic.Uint64 // see Beat

	mu     sync.Mutex // guards inbox, closed
	inbox  []message
	closed bool
	wake   chan struct{} // holds one token: the inbox or records changed

	state      State
	current    *Manifest
	kept       []retainedCheckpoint // oldest first, current is the last
	base       BaseRef              // merged, not yet named by a manifest
	rebasing   bool
	rebaseAt   uint64 // no merge before this checkpoint: the last one failed
	snaps      map[string]pipeline.TaskSnapshot
	latest     pipeline.TaskSnapshot
	next       []*waiter          // calls that wait for a barrier to come
	now        []*waiter          // calls that wait for the barrier under way
	held       map[*waiter]uint64 // checkpoints that stay although newer ones are enough
	keepFrom   uint64             // changes since that checkpoint are kept; 0: none
	demanded   bool               // the barrier under way has waiting Trigger calls
	aligned    time.Time
	lastWrite  time.Time
	lastErr    error
	complained time.Time          // when a failed checkpoint was last told
	cancel     context.CancelFunc // of the running Inject or writer

	jobs sync.WaitGroup // every goroutine that Run started
	bugs faults
}

// faults are planted by tests, or by the environment in a build with -tags weirfault; each is a mistake that a named test finds.
type faults struct {
	trimBeforePrune bool // RULES 12
	retainNewest    bool // the journal is held from the newest checkpoint on, not from the oldest retained
	releaseEarly    bool // results are released before the manifest is durable
	forgetAborted   bool // RULES 15: the changes of an aborted checkpoint are not merged back

	hang func() // the writer takes as long as that does

	pause      time.Duration // between an early release and its manifest, an early trim and its prune
	abortEvery uint64        // no fault: every n-th checkpoint fails before its manifest; 0: none
}

type retainedCheckpoint struct {
	id  uint64
	pos pipeline.Position
}

// NewCoordinator checks the options. It starts nothing.
func NewCoordinator(o Options) (*Coordinator, error) {
	if err := o.Config.Validate(); err != nil {
		return nil, fmt.Errorf("checkpoint settings: %w", err)
	}
	if o.Store == nil || o.Engine == nil || len(o.Tasks) == 0 {
		return nil, errors.New("new coordinator: store, engine and tasks are required")
	}
	if o.Holder == "" {
		o.Holder = o.Identity.Pipeline.String()
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Wall == nil {
		o.Wall = func() (int64, bool) { return time.Now().UnixMilli(), false }
	}
	c := &Coordinator{
		o: o, log: o.Logger, wake: make(chan struct{}, 1), current: o.Current, snaps: map[string]pipeline.TaskSnapshot{},
		held: map[*waiter]uint64{}, keepFrom: o.KeepFrom,
		bugs: plantedFaults(),
	}
	if c.current != nil { // asked before Run has begun, Metrics tells it already
		c.meter.with(c.describe)
	}
	return c, nil
}

// Metrics may be called at any time.
func (c *Coordinator) Metrics() Metrics { return c.meter.read() }

// Run drives checkpoints until ctx ends (nil), the store failed, or too many checkpoints failed. Every goroutine has
// ended when it returns. It is called once.
func (c *Coordinator) Run(ctx context.Context) error {
	if c.current == nil {
		return errors.New("run coordinator: no current checkpoint, CommitInitial comes first (RULES 11)")
	}
	ctx, stop := context.WithCancel(ctx)
	if err := c.begin(ctx); err != nil {
		stop()
		c.end()
		return err
	}
	err := c.loop(ctx)
	stop()
	c.jobs.Wait()
	c.end()
	return err
}

// begin learns what the store holds and holds the journal.
func (c *Coordinator) begin(ctx context.Context) error {
	list, err := c.o.Store.List(ctx)
	if err != nil {
		return fmt.Errorf("run coordinator: %w", err)
	}
	for i := len(list.Manifests) - 1; i >= 0; i-- {
		if m := list.Manifests[i]; m.ID < c.current.ID {
			c.kept = append(c.kept, retainedCheckpoint{m.ID, m.Position})
		}
	}
	c.kept = append(c.kept, retainedCheckpoint{c.current.ID, c.current.Position})
	c.state = State{NextID: max(c.o.Store.LastID(), c.current.ID) + 1, LastStart: time.Now()}
	c.lastWrite = time.Now()
	c.hold(c.floor())
	c.meter.with(c.describe)
	return nil
}

// hold tells the journal what the retained checkpoints from floor on need.
func (c *Coordinator) hold(floor int) {
	kept := c.kept[floor:]
	pos := kept[0].pos
	for _, k := range kept {
		pos = min(pos, k.pos)
	}
	if c.bugs.retainNewest {
		pos = c.current.Position
	}
	if c.o.Journal != nil {
		c.o.Journal.Retain(c.o.Holder, pos)
	}
	c.meter.with(func(m *Metrics) { m.RetainedFrom, m.RetainedCount = pos, len(kept) })
}

func (c *Coordinator) describe(m *Metrics) {
	m.LastID, m.LastPosition = c.current.ID, c.current.Position
	m.BaseBytes, m.DeltaFrames = c.current.Base.Bytes, len(c.current.Frames)
	m.DeltaBytes, _ = c.current.DeltaBytes()
}

func (c *Coordinator) loop(ctx context.Context) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		c.beatTurns.Add(1)
		if err := c.step(ctx, Event{Kind: EventWake}); err != nil {
			return err
		}
		for _, m := range c.drainInbox() {
			if err := c.receive(ctx, m); err != nil {
				return err
			}
		}
		var alarm <-chan time.Time
		if at := Wake(c.config(), c.state, c.records.Load()); !at.IsZero() {
			timer.Reset(max(time.Until(at), time.Millisecond))
			alarm = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-alarm:
		case <-c.wake:
		}
	}
}

// pressed tells whether retained checkpoints hold what the journal has no room for, though all of it is worked in.
func (c *Coordinator) pressed() bool {
	return c.o.Pressed != nil && c.kept[c.floor()].pos < c.current.Position && c.o.Pressed()
}

// receive turns a message into an event.
func (c *Coordinator) receive(ctx context.Context, m message) error {
	switch m.also {
	case alsoRebased:
		c.rebased(m.base, m.err)
		return nil
	case alsoReleased:
		m.wait.hold = false // it may still wait
		delete(c.held, m.wait)
		return nil
	case alsoKeepFrom:
		c.keepFrom = m.from
		return nil
	}
	ev := Event{Kind: m.kind, Err: m.err}
	switch m.kind {
	case EventDemand:
		c.next = append(c.next, m.wait)
	case EventDelivered:
		if !c.collect(m.snap) {
			return nil
		}
	case EventInjected:
		c.lastErr = m.err
	case EventWritten:
		c.lastErr = m.err
		ev.Fatal = errors.Is(m.err, ErrStoreFailed)
		c.wrote(m.done)
	}
	return c.step(ctx, ev)
}

// collect keeps a snapshot of the barrier under way; any other is a mistake of the engine and is dropped with a word.
func (c *Coordinator) collect(s pipeline.TaskSnapshot) bool {
	expected := (c.state.Phase == PhaseAligning || c.state.Phase == PhaseDraining) && s.Barrier.ID == c.state.ID
	if _, twice := c.snaps[s.Task]; !expected || twice || !c.knows(s.Task) {
		c.log.Error("unexpected task snapshot", "task", s.Task, "barrier", s.Barrier.ID, "current", c.state.ID)
		c.abortLater(s, false)
		return false
	}
	c.snaps[s.Task], c.latest = s, s
	c.aligned = time.Now()
	return true
}

func (c *Coordinator) knows(task string) bool {
	for _, t := range c.o.Tasks {
		if t == task {
			return true
		}
	}
	return false
}

// step asks Next and does what it says.
func (c *Coordinator) step(ctx context.Context, ev Event) error {
	ev.Now, ev.Records = time.Now(), c.records.Load()
	ev.Pressed = ev.Records == 0 && c.pressed()
	var acts []Action
	before := c.state.Phase
	c.state, acts = Next(c.config(), len(c.o.Tasks), c.state, ev)
	c.turned()
	for _, a := range acts {
		switch a {
		case ActionInject:
			c.inject(ctx)
		case ActionAnswer:
			c.answer(&c.next, answer{c: Checkpoint{c.current.ID, c.current.Position, c.current}})
		case ActionWrite:
			c.write(ctx)
		case ActionCancel:
			if c.cancel != nil {
				c.cancel()
			}
		case ActionAbort:
			for _, s := range c.snaps {
				c.abortLater(s, true)
			}
		case ActionDiscard:
			c.abortLater(c.latest, true)
		case ActionFinish:
			c.finish(ctx)
		case ActionFailed:
			c.failed(before)
		case ActionAlarm:
			c.meter.with(func(m *Metrics) { m.Alarm = true })
			c.log.Error("checkpoints keep failing", "in_a_row", c.state.Failures, "error", c.lastErr)
		case ActionStop:
			return c.stopError()
		}
	}
	return nil
}

func (c *Coordinator) stopError() error {
	if errors.Is(c.lastErr, ErrStoreFailed) {
		return fmt.Errorf("checkpoint %d: %w", c.state.ID, c.lastErr)
	}
	return fmt.Errorf("checkpoint %d: %w (%d in a row): %w", c.state.ID, ErrTooManyFailures, c.state.Failures, c.lastErr)
}

func (c *Coordinator) answer(waiting *[]*waiter, a answer) {
	for _, w := range *waiting {
		if w.hold && a.err == nil {
			c.held[w] = a.c.ID
		}
		w.to <- a
	}
	*waiting = nil
}

// end answers those that still wait. Snapshots that are still here are merged back by nobody: their tables die with the region.
func (c *Coordinator) end() {
	c.mu.Lock()
	c.closed = true
	left := c.inbox
	c.inbox = nil
	c.mu.Unlock()
	for _, m := range left {
		if m.wait != nil && m.also == alsoNothing {
			c.next = append(c.next, m.wait)
		}
	}
	a := answer{err: fmt.Errorf("trigger checkpoint: %w", ErrClosed)}
	c.answer(&c.next, a)
	c.answer(&c.now, a)
}
