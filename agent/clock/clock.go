// Package clock makes the stamps of journal frames: elapsed time that never steps, and the wall clock with a judgement whether to believe it.
// See DESIGN.md beside it.
package clock

import (
	"sync"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Options say where a clock goes on from.
type Options struct {
	Last pipeline.Stamp // of the journal's last frame
	// Trusted is the wall time (Unix ms) of the journal's last frame whose clock was trusted, which may lie far before Last: a device without a battery is
	// switched off several times before a time service is reached. 0: there is none.
	Trusted int64
	Build   int64 // Unix ms of the build: the time is surely later; 0 when it is not known
	// TrustAlways skips the question whether the clock is synchronised (virtual machines, containers, tests).
	TrustAlways bool
	// Machine is asked for the time; nil for this machine's clocks.
	Machine Machine
}

// Clock makes stamps. Elapsed goes on from the journal's last stamp and runs with the monotonic clock; a step of the wall clock never moves it.
// Safe for use by several goroutines.
type Clock struct {
	mu          sync.Mutex
	machine     Machine
	trustAlways bool
	base        int64 // elapsed ns at start
	start       int64 // monotonic ns at start
	floor       floor
	synced      bool
	checkedAt   int64 // monotonic ns of the last question; 0 before the first
	seen        Reading
	steps       Steps
}

// syncCheckEvery bounds how often the machine is asked whether its clock is synchronised.
const syncCheckEvery = 10 * time.Second

// New continues behind the stamp of the journal's last frame.
func New(o Options) *Clock {
	c := &Clock{machine: o.Machine, trustAlways: o.TrustAlways, base: o.Last.Elapsed, floor: floor{hard: o.Build, soft: o.Trusted}}
	if c.machine == nil {
		c.machine = This
	}
	if o.Last.Trusted {
		c.floor.soft = o.Last.Wall
	}
	c.seen = c.machine.Read()
	c.start = c.seen.Monotonic
	return c
}

// Raise moves the elapsed time on to at least ns: state that comes from another gateway counts from there. It never goes back.
func (c *Clock) Raise(ns int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.elapsed(c.machine.Read()); now < ns {
		c.base += ns - now
	}
}

// Seen raises the floor to a time (Unix ms) that a clock which was trusted then left in what is restored here.
func (c *Clock) Seen(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.soft = max(c.floor.soft, ms)
}

// Told raises the floor to a time (Unix ms) at which somebody who is believed has signed something, by at most a day: their clock may be wrong as well.
func (c *Clock) Told(ms int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floor.soft = max(c.floor.soft, min(ms, c.floor.ms()+toldMost.Milliseconds()))
}

// toldMost is how far Told moves the floor at once.
const toldMost = 24 * time.Hour

// Elapsed is the journal's elapsed time now, in ns.
func (c *Clock) Elapsed() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.elapsed(c.machine.Read())
}

func (c *Clock) elapsed(r Reading) int64 { return c.base + r.Monotonic - c.start }

// Stamp is the present.
func (c *Clock) Stamp() pipeline.Stamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stamp(c.look())
}

func (c *Clock) stamp(r Reading) pipeline.Stamp {
	return pipeline.Stamp{Elapsed: c.elapsed(r), Wall: r.Wall / int64(time.Millisecond), Trusted: c.trusted(r)}
}

// look reads the clocks and notes a step: it is the time service that sets a clock, so it is asked again.
func (c *Clock) look() Reading {
	r := c.machine.Read()
	d := stepBetween(c.seen, r)
	c.steps.note(d, c.elapsed(r))
	c.seen = r
	if d.wall != 0 {
		c.checkedAt = 0
	}
	return r
}

// trusted says whether the wall clock is to be believed, and lets the soft floor go once the time service has insisted for long enough.
func (c *Clock) trusted(r Reading) bool {
	if c.checkedAt == 0 || r.Monotonic-c.checkedAt > int64(syncCheckEvery) {
		c.synced, c.checkedAt = c.trustAlways || c.machine.Synced(), max(r.Monotonic, 1)
	}
	return c.floor.judge(r.Wall/int64(time.Millisecond), r.Monotonic, c.synced)
}

// Wall is the time by which dates are to be judged: the wall clock, or the floor where that is later. late says that it cannot be relied on: the true time is that or later.
func (c *Clock) Wall() (at time.Time, late bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stamp(c.look())
	return time.UnixMilli(max(s.Wall, c.floor.ms())), !s.Trusted
}

// Floor is the time (Unix ms) below which the wall clock is taken to be wrong.
func (c *Clock) Floor() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.floor.ms()
}

// Steps tells of the steps of the wall clock, and of sleep, since the start.
func (c *Clock) Steps() Steps {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.look()
	return c.steps
}

// Due gives a sentence for the journal when the clock stepped and the last such sentence is a minute old; "" when there is nothing to say.
func (c *Clock) Due() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.look()
	return c.steps.due(c.elapsed(r))
}
