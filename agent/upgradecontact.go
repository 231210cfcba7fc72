//go:build !nocentral

package agent

import (
	"math"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
)

// contactSpan is how long ago the fleet may have been heard last for a new program to have to hear it as well.
const contactSpan = 24 * time.Hour

// contact tells that this gateway hears its fleet: a document of it has asked for this very upgrade, or one was read within a day, by this process.
func (u *upgrader) contact() bool {
	return u.rec.Scope != "" || u.agent.fleet.heard(contactSpan)
}

// heardOnTrial tells that the program on trial has heard its fleet. It runs since the switch.
func (u *upgrader) heardOnTrial() bool {
	return u.agent.fleet.heard(math.MaxInt64)
}

// causeOf is why a program whose time on trial is over is gone back from. One that lacks a word from its fleet and nothing else may be as good as any, on a line that is down: its digest is not rejected.
func causeOf(v *upgrade.Verdict) upgrade.Cause {
	if v.Unheard {
		return upgrade.CauseGate
	}
	return upgrade.CauseProbation
}

// heard tells that the fleet's store was read in full, and has a signed document that counts here, by this process and not longer ago. A store without one may be any: one that was not mounted, or that a broken program asks for other names.
func (s *fleetSide) heard(within time.Duration) bool {
	if s == nil || s.channel == nil {
		return false
	}
	at := s.channel.Status().Spoken
	return !at.IsZero() && time.Since(at) < within
}
