// Package pace says how long a gateway waits before it asks its fleet's store for something. It is pure: the caller has the clock, and draws. Gateways follow it (agent/channel, agent), and so does the simulation of a fleet (fleet/rollout), whose
// figures the operator's guide has.
package pace

import "time"

const (
	// RequestsPerLook is what a look costs that finds nothing new: the next root, the channel's roll-out and commands, the gateway's commands.
	RequestsPerLook = 4
	// jitter is how far a wait is spread, so that gateways that were started together do not stay together.
	jitter = 0.2
	// bellSpares is how many times rarer it is looked with a doorbell that is connected.
	bellSpares = 12
	// RingApart is the least time between two looks that the doorbell leads to.
	RingApart = 10 * time.Second
	// FailWait is the wait behind the first failure; each one in a row doubles it.
	FailWait = 30 * time.Second
	// failMost bounds that, as a multiple of the setting.
	failMost = 4
)

// Pace is what is set: how often it is looked (fleet.poll), and over how long gateways spread what something leads all of them to at once (fleet.spread). A random below is in [0, 1), and drawn anew for each wait.
type Pace struct{ Poll, Spread time.Duration }

// spread is Spread, but for a gateway that looks more often than that: what all would do within a poll anyway is no crowd.
func (p Pace) spread(random float64) time.Duration {
	return time.Duration(random * float64(max(min(p.Spread, p.Poll), 0)))
}

// Jitter makes a wait up to a fifth shorter or longer.
func Jitter(d time.Duration, random float64) time.Duration {
	return d + time.Duration(float64(d)*jitter*(2*random-1))
}

// First is how long to wait behind a start: where a power cut ends, all start at once.
func (p Pace) First(random float64) time.Duration { return p.spread(random) }

// Look is how long to wait for the next look: behind fails failures in a row, with a doorbell that is heard or without.
func (p Pace) Look(heard bool, fails int, random float64) time.Duration {
	switch {
	case fails > 0:
		d := FailWait
		for i := 1; i < fails && d < failMost*p.Poll; i++ {
			d *= 2
		}
		return Jitter(min(d, max(failMost*p.Poll, FailWait)), random)
	case heard:
		return Jitter(p.Poll*bellSpares, random)
	}
	return Jitter(p.Poll, random)
}

// Ring is how long to wait behind a ring, the last look having begun so long ago: all of a channel hear it at once.
func (p Pace) Ring(since time.Duration, random float64) time.Duration {
	return max(RingApart-since, 0) + p.spread(random)
}

// Fetch is how long to wait before the first piece of a program that many gateways are to have: they read of it at about the same time, and each asks for hundreds of pieces.
func (p Pace) Fetch(random float64) time.Duration { return p.spread(random) }
