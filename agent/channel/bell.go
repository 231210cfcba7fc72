package channel

import (
	"strconv"
	"time"

	"github.com/weirstream/weir/fleet/pace"
	"github.com/weirstream/weir/fleet/strict"
)

// ringDigits is how long a ring may be: it is a number, and nothing else.
const ringDigits = 16

// floodRings in pace.RingApart are told of as a flood, once.
const floodRings = 100

// bellState is what was heard. Channel.mu guards it.
type bellState struct {
	heard  bool
	number uint64 // of the last ring
	since  time.Time
	rings  int // since then
	told   bool
}

// hear notes that the doorbell can be heard, or not any more.
func (c *Channel) hear(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bell.heard = on
}

// ring takes a message of the doorbell. Whoever may write to the broker can send any: it is a reason to look, and nothing else is taken from it. A number that came before, such as the retained one behind a new connection, is no news.
func (c *Channel) ring(payload []byte) {
	n, err := strconv.ParseUint(string(payload[:min(len(payload), ringDigits+1)]), 10, 64)
	now := time.Now()
	c.mu.Lock()
	b := &c.bell
	c.count.rings++
	if now.Sub(b.since) > pace.RingApart {
		b.since, b.rings = now, 0
	}
	b.rings++
	flood := b.rings == floodRings && !b.told
	b.told = b.told || flood
	news := err == nil && len(payload) <= ringDigits && n <= strict.SerialMost && n != b.number
	if news {
		b.number = n
	}
	if err != nil || len(payload) > ringDigits || n > strict.SerialMost {
		c.count.badRings++
	}
	c.mu.Unlock()
	if flood {
		c.log.Warn("fleet's doorbell is rung all the time; it is looked no more often for that", "rings", floodRings, "in", pace.RingApart)
	}
	if !news {
		return
	}
	select {
	case c.rung <- struct{}{}:
	default: // one is waiting already
	}
}

// behindRing is how long until the next look when the doorbell has rung. Another ring never puts it off.
func (c *Channel) behindRing(now time.Time) time.Duration {
	if c.faults.everyRing {
		return 0
	}
	if !c.ringDue.After(now) {
		c.ringDue = now.Add(c.Pace.Ring(now.Sub(c.lookedAt), c.random()))
	}
	if c.ringDue.Before(c.due) {
		c.due = c.ringDue
	}
	return c.due.Sub(now)
}
