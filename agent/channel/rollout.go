package channel

import (
	"context"
	"errors"
	"fmt"

	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
	"github.com/weirstream/weir/uplink/bucket"
)

// What becomes of a roll-out here.
type pursuit uint8

const (
	leave   pursuit = iota // nothing: it is not for this gateway, or all was done
	hand                   // the upgrader is to be asked
	halt                   // an upgrade of it is to be given up
	runs                   // its release runs already
	expired                // it came too late
)

// facts are what that depends on.
type facts struct {
	gateway, board, release string // release: sha256 of that which runs; "": it came from elsewhere
	nowMs                   int64
	trusted                 bool
	handed                  *handed
}

// judgeRollout decides. One roll-out and release are one attempt, whatever came of it.
func judgeRollout(r *document.Rollout, f facts) pursuit {
	same := f.handed != nil && f.handed.ID == r.ID && f.handed.Release == r.Release
	switch {
	case r.Halted:
		if same && f.handed.Outcome == "" {
			return halt
		}
		return leave
	case !r.Includes(f.gateway, f.board):
		return leave
	case same && (f.handed.Asked || f.handed.Outcome != "" && !f.handed.Unread):
		return leave
	case r.Release == f.release && !same:
		return runs
	case r.ExpiresMs != 0 && f.trusted && f.nowMs > r.ExpiresMs:
		return expired
	}
	return hand
}

// underWay tells that an upgrade has begun and not ended.
func underWay(u *document.Progress) bool { return u != nil && u.State != "" && u.Outcome == "" }

// replacedBy tells that an upgrade under way was asked for by a roll-out in whose place r has come, with another release, and has not stopped anything yet. Its pieces may be ones that never come, or its release the one that is to be
// got rid of: it is given up, whether r is for this gateway or not. One that has stopped pipelines is soon over.
func replacedBy(r *document.Rollout, u *document.Progress) bool {
	if !underWay(u) || u.Rollout == "" || u.Release == r.Release {
		return false
	}
	return u.State == "accepted" || u.State == "fetching" || u.State == "staged"
}

// Outcomes of a roll-out that the upgrader does not know.
const (
	outcomeCommitted = "committed"
	outcomeGated     = "gated"
	outcomeExpired   = "expired"
)

// pursue does what the roll-out that counts asks for.
func (c *Channel) pursue(ctx context.Context) {
	r := c.rollout
	if r == nil {
		return
	}
	state := c.Acts.State()
	if u := state.Upgrade; replacedBy(r, u) && !c.faults.neverReplaced {
		c.later = true
		c.Acts.Halt(u.Rollout, fmt.Sprintf("roll-out %s has taken its place", r.ID))
		return
	}
	c.later = false
	f := facts{gateway: c.Gateway, board: c.Board, release: state.Release, handed: c.ledger.Rollout}
	f.nowMs, f.trusted = c.Clock.Now()
	what := judgeRollout(r, f)
	if c.faults.anyAudience && what == leave && !r.Halted && f.handed == nil {
		what = hand
	}
	if c.faults.askAlways && what == leave && !r.Halted {
		what = hand
	}
	var err error
	switch what {
	case halt:
		c.Acts.Halt(r.ID, r.WhyHalt)
	case runs:
		err = c.hold(&handed{ID: r.ID, Release: r.Release, Serial: r.Serial, Outcome: outcomeCommitted, Why: "it ran already", AtMs: f.nowMs})
	case expired:
		err = c.hold(&handed{ID: r.ID, Release: r.Release, Serial: r.Serial, Outcome: outcomeExpired, Why: "it came here behind its time", AtMs: f.nowMs})
	case hand:
		if c.upgrading() {
			return
		}
		err = c.handOver(ctx, r, f)
	}
	if c.failing("rollout "+r.ID, err) {
		c.log.Error("roll-out is not taken up; it is tried again", "rollout", r.ID, "error", err)
	}
}

// hold makes durable what became of a roll-out.
func (c *Channel) hold(h *handed) error {
	was := c.ledger.Rollout
	c.ledger.Rollout = h
	err := c.save()
	if err != nil {
		c.ledger.Rollout = was
	}
	return err
}

// handOver asks the upgrader. That it is going to be asked is durable before: the upgrader takes the same roll-out once.
func (c *Channel) handOver(ctx context.Context, r *document.Rollout, f facts) error {
	name, was := depot.Release(r.Release), c.ledger.Rollout
	again := was != nil && was.ID == r.ID && was.Release == r.Release
	version := ""
	if again && was.Unread {
		version = c.versions[name] // what did not count is not read again until it changes
	}
	envelope, version, err := c.get(ctx, name, version)
	if errors.Is(err, bucket.ErrUnchanged) {
		return nil
	}
	var release *document.Release
	if err == nil {
		release, err = depot.TakeRelease(c.trust, r.Release, envelope)
	}
	if err != nil && reasonOf(err) == "" {
		return fmt.Errorf("release %.12s: %w", r.Release, err)
	}
	if err != nil {
		c.versions[name] = version
		c.refused(name, nil, err)
		if again && was.Unread { // whatever else lies there now: it is in the ledger that it does not count
			return nil
		}
	}
	h := &handed{ID: r.ID, Release: r.Release, Serial: r.Serial, AtMs: f.nowMs}
	if again && !was.Unread { // asked for, and not had yet
		h = was
	} else if err := c.hold(h); err != nil {
		return err
	}
	unread := err != nil
	c.hook("rollout-held")
	if err == nil {
		err = c.Acts.Upgrade(ctx, &Handover{Scope: c.rolloutScope(), Serial: r.Serial, Since: c.ledger.Scopes[c.rolloutScope()].Since, Rollout: r.ID, Policy: r.Policy, ExpiresMs: r.ExpiresMs, SHA256: r.Release, Release: release, Envelope: envelope})
	}
	c.hook("rollout-asked")
	next := *h
	switch {
	case errors.Is(err, ErrLater):
		c.later = true
		return nil
	case err != nil:
		c.log.Error("roll-out is not for this gateway", "rollout", r.ID, "error", err)
		next.Outcome, next.Why, next.Unread = outcomeGated, err.Error(), unread
	default:
		c.log.Info("roll-out is taken up", "rollout", r.ID, "version", release.Version)
		next.Asked = true
	}
	return c.hold(&next)
}
