package agent

import (
	"context"
	"math/rand/v2"
	"time"
)

// watchClaim looks at the claim until the device is fenced or ctx ends.
func (a *Agent) watchClaim(ctx context.Context) error {
	if a.claims == nil {
		return nil
	}
	every := max(a.config.Central.FencePoll, time.Second)
	for {
		a.checkClaim(ctx)
		wait := time.Duration(float64(every) * (0.8 + 0.4*rand.Float64()))
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-a.fence.up:
			timer.Stop()
			return nil
		case <-ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

// checkClaim asks once; a central store that does not answer says nothing.
func (a *Agent) checkClaim(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, claimWait)
	defer cancel()
	by, err := a.claims.Check(ctx, a.identity.Major, a.board())
	switch {
	case by != nil:
		a.fenceOff(by)
	case err != nil && ctx.Err() == nil:
		a.log.Debug("the central store does not tell who speaks for this gateway", "error", err)
	}
}

// askWait bounds how long a session waits to hear from upstream, before it connects, that it may.
const (
	askWait = 5 * time.Second
	askPoll = 20 * time.Millisecond
)

// mayConnect is asked before every CONNECT (RULES 29): a device whose place was taken must not take its successor's session away, and acknowledge what the successor then never
// sees. The central store is asked; before the first CONNECT every sink has had its first answer too. Who cannot be reached is not waited for.
func (a *Agent) mayConnect(ctx context.Context) error {
	if a.claims != nil {
		a.checkClaim(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, askWait)
	defer cancel()
	tick := time.NewTicker(askPoll)
	defer tick.Stop()
	for a.fence.err() == nil && !a.sinksAnswered() {
		select {
		case <-tick.C:
		case <-a.fence.up:
		case <-ctx.Done():
			return a.fence.err()
		}
	}
	return a.fence.err()
}

// sinksAnswered tells whether every running pipeline has heard from each of its sinks since it started, or that it is away.
func (a *Agent) sinksAnswered() bool {
	for _, s := range a.all() {
		s.mu.Lock()
		state, at := s.state, s.current
		s.mu.Unlock()
		if state == PipelineStarting {
			return false
		}
		if at == nil {
			continue
		}
		for _, l := range at.links {
			if !l.Sender.Metrics().Answered.Load() && l.Sender.Metrics().Held() == "" {
				return false
			}
		}
	}
	return true
}
