//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/channel"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/fleet/depot"
	"github.com/weirstream/weir/fleet/document"
)

func archOf() string { return runtime.GOARCH }

// fleetOrder is the document that asks for an upgrade. A nil one is nobody: somebody on this device asks.
type fleetOrder struct {
	scope            string
	serial           uint64
	command, rollout string
	policy           document.Policy
	expires          int64 // Unix ms; 0: never
}

// upgradeScope names what serials of a document are counted under: where all keys of the role were replaced they begin anew, and so does the name.
func upgradeScope(scope string, since uint64) string {
	if since <= 1 {
		return scope
	}
	return fmt.Sprintf("%s since %d", scope, since)
}

// mark writes who asked, and how, into the record.
func (o *fleetOrder) mark(r *upgrade.Record) {
	if o == nil {
		return
	}
	r.Scope, r.Serial, r.Command, r.Rollout, r.Expires = o.scope, o.serial, o.command, o.rollout, o.expires
	r.Duplicate = o.policy.AllowDuplicates
	if o.policy.ProbationMs > 0 {
		r.Probation = o.policy.ProbationMs
	}
}

func (o *fleetOrder) window() string {
	if o == nil {
		return ""
	}
	return o.policy.Window
}

// Upgrade hands a release to the upgrader.
func (s *fleetSide) Upgrade(ctx context.Context, h *channel.Handover) error {
	u := s.agent.upgrader
	o := &fleetOrder{scope: upgradeScope(h.Scope, h.Since), serial: h.Serial, command: h.Command, rollout: h.Rollout, policy: h.Policy, expires: h.ExpiresMs}
	rec := u.record()
	switch {
	case u.broken != nil:
		return u.broken
	case h.Rollout != "" && rec.Rollout == h.Rollout && rec.Target.Release == h.SHA256: // over its waves the serial rises
		return nil
	}
	err := u.send(ctx, &upgradeAsk{o: api.UpgradeOptions{Release: h.Envelope, DiscardState: h.Policy.DiscardState, UploadSavepoints: h.Policy.Savepoint == "required", Again: h.Policy.Again}, by: o})
	switch {
	case errors.Is(err, upgrade.ErrKnown):
		return nil
	case errors.Is(err, upgrade.ErrBusy), errors.Is(err, errUpgrading), errors.Is(err, ErrApplying), errors.Is(err, errStopping), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("%w: %w", channel.ErrLater, err)
	}
	return err
}

// Upgraded tells what became of an upgrade that a command asked for.
func (s *fleetSide) Upgraded(o *channel.Order) (channel.Outcome, bool) {
	rec := s.agent.upgrader.record()
	if rec.Command != o.ID || rec.Serial != o.Serial || rec.Scope != upgradeScope(o.Scope, o.Since) {
		return channel.Outcome{}, false
	}
	p := progressOf(&rec)
	switch {
	case p.Outcome == "":
		return channel.Outcome{}, true
	case rec.State == upgrade.Committed:
		return channel.Outcome{Result: document.ResultDone, Detail: fmt.Sprintf("version %s runs, %s before", rec.Target.Version, rec.From.Version)}, true
	}
	result := document.ResultFailed
	if rec.Cause == upgrade.CauseExpired {
		result = document.ResultExpired
	}
	return channel.Outcome{Result: result, Detail: fmt.Sprintf("%s (%s): %s; version %s runs", p.Outcome, rec.State, rec.Why, rec.From.Version)}, true
}

// Halt gives an upgrade up that the roll-out asked for.
func (s *fleetSide) Halt(rollout, why string) {
	rec := s.agent.upgrader.record()
	if rec.Rollout != rollout || rec.Resting() || rec.State == upgrade.Rollback || rec.State == upgrade.Restoring {
		return
	}
	if why == "" {
		why = "no reason was given"
	}
	if err := s.agent.AbortUpgrade(context.Background(), "roll-out "+rollout+" was halted: "+why); err != nil {
		s.agent.log.Info("halted roll-out is not given up here", "rollout", rollout, "error", err)
	}
}

// progressOf is an upgrade as reports have it; nil: there never was one.
func progressOf(r *upgrade.Record) *document.Progress {
	if r.State == upgrade.Idle {
		return nil
	}
	p := &document.Progress{Rollout: r.Rollout, Release: r.Target.Release, State: string(r.State), Why: r.Why, From: r.From.Version, To: r.Target.Version, Offline: r.Offline}
	for _, s := range r.Savings {
		if s.Savepoint != "" {
			p.Saved = append(p.Saved, s.Name+" "+s.Savepoint)
		}
	}
	switch {
	case r.State == upgrade.Committed:
		p.Outcome = "committed"
	case !r.Resting():
	case r.Cause == upgrade.CauseHalted:
		p.Outcome = "halted"
	case r.State == upgrade.RolledBack:
		p.Outcome = "rolled back"
	case r.Cause == upgrade.CauseExpired:
		p.Outcome = "expired"
	case r.Cause == upgrade.CauseGate, r.Cause == upgrade.CauseSpace:
		p.Outcome = "gated"
	default:
		p.Outcome = "failed"
	}
	return p
}

// runs is the release of the program that runs; "": it came from elsewhere. It is for others than run's goroutine.
func (u *upgrader) runs(r *upgrade.Record) string {
	switch {
	case r.State == upgrade.Committed && u.here.Booted == r.Standby:
		return r.Target.Release
	case (r.State == upgrade.Failed || r.State == upgrade.RolledBack) && u.here.Booted == r.Active:
		return r.From.Release
	}
	return ""
}

// apart waits before the first piece of a program that many gateways are to have, for a part of fleet.spread that is drawn: once in a process, since those that a power cut has ended together go on together. What was asked of this gateway alone
// begins at once.
func (u *upgrader) apart(ctx context.Context) error {
	if strings.HasPrefix(u.rec.Scope, document.ScopeDevice) {
		return nil
	}
	if u.fetchFor != u.rec.Number {
		u.fetchFor, u.fetchAt = u.rec.Number, time.Now().Add(fleetPace(u.agent.config).Fetch(rand.Float64()))
	}
	wait := time.Until(u.fetchAt)
	if wait <= 0 {
		return nil
	}
	u.waits(fmt.Sprintf("many gateways are to fetch it: this one begins at %s (fleet.spread)", u.fetchAt.Format(time.TimeOnly)))
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// fleetChunks is where pieces of artifacts come from that a document asked for, and what bounds how fast.
func (a *Agent) fleetChunks() (upgrade.Chunks, func(context.Context, int64) error, error) {
	if a.offsites == nil {
		return nil, nil, errors.New("the pieces of the artifact lie in the central store, and the config has none")
	}
	return depot.Depot{Bucket: a.offsites.bucket}, func(ctx context.Context, n int64) error { return a.offsites.pace(ctx, int(n)) }, nil
}
