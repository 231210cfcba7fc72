// Package channel is the gateway's side of a fleet: it looks for documents in the central store, lets those count that are signed, new, and for this gateway, carries commands out once each, hands roll-outs to the upgrader, and reports.
//
// What must outlast a crash lies in a directory of its own (FORMAT.md) and is durable before it is acted on: the serials of the documents that count, each command before it is begun, its result before it is sent. A store or a broker
// that lies can delay, and nothing else. DESIGN.md has the goroutines and the order of the checks.
package channel

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/fleet/signed"
	"github.com/weirstream/weir/store/disk"
)

// Config says who this gateway is, and where it looks.
type Config struct {
	Gateway, Channel, Board string
	Depot                   depot.Depot
	Trust                   *signed.Trust // the newest root that is known; New takes it over
	Roots                   string        // directory in which new roots are kept, as root-N.json
	FS                      disk.FS
	Dir                     string        // of the channel's own files
	Pace                    pace.Pace     // how often it is looked, and how spread out
	Timeout                 time.Duration // of one request
	Bell                    Bell          // nil: none
	Acts                    Acts
	Clock                   Clock
	Key                     func() (signed.Signer, error) // the gateway's own, as it is now
	Log                     *slog.Logger
	Died                    func(at string) // called at each durable step, for tests that kill the process there; nil: nobody

	hook   func(at string) // planted by tests: called at each durable step
	random func() float64
	faults faults
}

// Channel is a gateway's side of a fleet. Run's goroutine owns everything but what mu guards.
type Channel struct {
	Config
	log   *slog.Logger
	fs    disk.FS
	dir   string
	trust *signed.Trust

	ledger   *ledger
	unread   error             // why the ledger cannot be read: nothing is done
	versions map[string]string // of what was read last, by name
	rollout  *document.Rollout // the newest that counts; nil: none
	later    bool              // it could not be handed over for what is done here, and is when that is over
	lists    map[string]*document.Commands
	stands   map[string]bool // documents that lay there when it was looked last, and count; by name
	told     map[string]bool
	places   map[string]*toldOf // of refused documents, by where they lie
	failed   map[string]string  // what failed last, by what was done; cleared when it is done
	work     chan *job
	done     chan *job
	busy     bool
	asked    map[*order]time.Time // when it was asked what became of it
	fails    int
	lookedAt time.Time
	due      time.Time // when it is looked next
	ringDue  time.Time // when the look is due that a ring led to
	report   reporter

	rung  chan struct{}
	mu    sync.Mutex
	bell  bellState
	state Status
	count counts
}

// Status is what is told of the channel.
type Status struct {
	Root       uint64
	Serials    map[string]uint64
	Contact    time.Time // the last look that was answered in full; zero: none since the start
	Spoken     time.Time // the last such look that found a signed document which counts: a store that has none may be any
	CreatedMs  int64     // when the newest document that counts was made
	Heard      bool      // the doorbell is connected
	Error      string    // why the last look was not answered in full
	Rollout    string
	Halted     bool
	Begun      int // commands under way
	Unsent     int // results that are not in the store yet
	Polls      uint64
	Failures   uint64
	Rings      uint64
	BadRings   uint64
	Commands   map[string]uint64 // by result
	Refused    map[string]uint64 // documents, by reason
	Reports    uint64
	LedgerSave uint64
}

// counts are those of this process. Channel.mu guards them.
type counts struct {
	polls, failures, rings, badRings, reports, saves uint64
	commands, refused                                map[string]uint64
}

// New reads what earlier starts have left. It writes nothing. With a ledger that cannot be read the channel does nothing but report (Unread).
func New(c Config) *Channel {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.hook == nil {
		c.hook = func(at string) {
			if c.Died != nil {
				c.Died("fleet-" + at)
			}
		}
	}
	if c.random == nil {
		c.random = rand.Float64
	}
	c.faults = plantedFaults(c.faults)
	l, damaged, err := loadLedger(c.FS, c.Dir)
	if err != nil {
		l = &ledger{}
	}
	if damaged != nil {
		c.Log.Error("fleet's ledger is damaged, and its copy is taken", "error", damaged)
	}
	ch := &Channel{Config: c, unread: err, log: c.Log, fs: c.FS, dir: c.Dir, trust: c.Trust, ledger: l, versions: map[string]string{}, lists: map[string]*document.Commands{}, stands: map[string]bool{}, told: map[string]bool{}, places: map[string]*toldOf{}, failed: map[string]string{},
		work: make(chan *job), done: make(chan *job), asked: map[*order]time.Time{}, rung: make(chan struct{}, 1)}
	ch.count.commands, ch.count.refused = map[string]uint64{}, map[string]uint64{}
	for _, f := range l.Scopes {
		c.Clock.Told(f.CreatedMs)
	}
	ch.show()
	return ch
}

// Unread tells why nobody directs this gateway: the ledger cannot be read. nil: it was.
func (c *Channel) Unread() error { return c.unread }

// rolloutScope and the others are the scopes whose documents count here.
func (c *Channel) rolloutScope() string { return "rollout/" + c.Channel }
func (c *Channel) channelScope() string { return document.ScopeChannel + c.Channel }
func (c *Channel) deviceScope() string  { return document.ScopeDevice + c.Gateway }

// Run looks, acts and reports until ctx ends, and every goroutine of it has ended.
func (c *Channel) Run(ctx context.Context) error {
	if c.unread != nil {
		c.mute(ctx)
		return nil
	}
	var group sync.WaitGroup
	defer group.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group.Go(func() { c.labour(ctx) })
	if c.Bell != nil {
		group.Go(func() { c.Bell.Run(ctx, c.ring, c.hear) })
	}
	first := c.Pace.First(c.random())
	c.due = time.Now().Add(first)
	poll, look := time.NewTimer(first), time.NewTicker(lookEvery)
	defer poll.Stop()
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-poll.C:
			if c.Acts.Fenced() == nil {
				c.poll(ctx)
			}
			wait := c.next()
			c.due = time.Now().Add(wait)
			poll.Reset(wait)
		case <-c.rung:
			poll.Reset(c.behindRing(time.Now()))
		case j := <-c.done:
			c.ended(ctx, j)
		case <-look.C:
			if c.later && !underWay(c.Acts.State().Upgrade) && c.Acts.Fenced() == nil { // what kept the roll-out waiting is over
				c.pursue(ctx)
			}
		}
		if c.Acts.Fenced() != nil {
			continue
		}
		c.begin(ctx)
		c.tell(ctx)
		c.show()
	}
}

// next is how long until the next look.
func (c *Channel) next() time.Duration {
	c.mu.Lock()
	heard := c.bell.heard
	c.mu.Unlock()
	return c.Pace.Look(heard, c.fails, c.random())
}

// poll is one look: the chain of roots, the channel's documents, the gateway's. One that fails keeps none of the others from being read.
func (c *Channel) poll(ctx context.Context) {
	c.lookedAt = time.Now()
	var all error
	for _, read := range []func(context.Context) error{c.readRoot, c.readRollout, c.readChannelCommands, c.readDeviceCommands} {
		all = errors.Join(all, read(ctx))
	}
	if ctx.Err() != nil {
		return
	}
	c.pursue(ctx)
	c.looked(all)
}

// looked notes how a look ended.
func (c *Channel) looked(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count.polls++
	if err == nil {
		if c.fails > 0 {
			c.log.Info("fleet's store answers again", "failures", c.fails)
		}
		c.fails, c.state.Contact, c.state.Error = 0, time.Now(), ""
		if len(c.stands) > 0 {
			c.state.Spoken = c.state.Contact
		}
		return
	}
	c.count.failures++
	if c.fails++; c.fails == 1 {
		c.log.Warn("fleet's store was not read; it is tried again", "error", err)
	}
	c.state.Error = err.Error()
}

// readRoot walks the chain of roots.
func (c *Channel) readRoot(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout) // of all of them: each that came is kept
	defer cancel()
	body, err := c.Depot.Advance(ctx, c.trust, func(version uint64, envelope []byte) error {
		c.hook("root-before")
		if err := c.fs.MkdirAll(c.Roots); err != nil {
			return err
		}
		if err := disk.WriteFileAtomic(c.fs, filepath.Join(c.Roots, fmt.Sprintf("root-%d.json", version)), envelope); err != nil {
			return fmt.Errorf("keep root %d: %w", version, err)
		}
		c.hook("root-after")
		clear(c.versions) // what was refused may count now,
		c.rollout = nil   // and what was read no more: all of it is read again
		clear(c.lists)
		c.log.Info("fleet has a new root", "version", version)
		return nil
	})
	if err != nil && reasonOf(err) != "" {
		c.refused(depot.Root(c.trust.Version()+1), body, err)
		return nil
	}
	return err
}

// Status is for others than Run's goroutine.
func (c *Channel) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state
	s.Heard = c.bell.heard
	n := &c.count
	s.Polls, s.Failures, s.Rings, s.BadRings, s.Reports, s.LedgerSave = n.polls, n.failures, n.rings, n.badRings, n.reports, n.saves
	s.Commands, s.Refused = maps.Clone(n.commands), maps.Clone(n.refused)
	return s
}

// show makes what Status tells of Run's own.
func (c *Channel) show() {
	begun, unsent := 0, 0
	for _, o := range c.ledger.Orders {
		switch {
		case !o.Ended:
			begun++
		case !o.Sent:
			unsent++
		}
	}
	serials, created := map[string]uint64{}, int64(0)
	for scope, f := range c.ledger.Scopes {
		serials[scope], created = f.Serial, max(created, f.CreatedMs)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Root, c.state.Serials, c.state.CreatedMs, c.state.Begun, c.state.Unsent = c.trust.Version(), serials, created, begun, unsent
	c.state.Rollout, c.state.Halted = "", false
	if c.rollout != nil {
		c.state.Rollout, c.state.Halted = c.rollout.ID, c.rollout.Halted
	}
}
