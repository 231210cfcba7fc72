//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
)

const (
	// trialPoll is how often the pipelines on trial are looked at.
	trialPoll = 100 * time.Millisecond
	// trialCheckpoints is how many each must have made.
	trialCheckpoints = 3
)

// watch looks at the program on trial until it is over: it stays, or is gone back from.
func (u *upgrader) watch(ctx context.Context) error {
	tick := time.NewTicker(trialPoll)
	defer tick.Stop()
	for {
		failed, waits := u.gates(ctx)
		full := u.heldBytes() >= u.agent.config.Upgrade.ProbationBytes
		up := time.Since(u.watched)
		least := max(trialLeastOf(), time.Duration(u.rec.Probation)*time.Millisecond)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case u.agent.fence.err() != nil:
			return u.agent.fence.err()
		case failed != "":
			return unfitFor(upgrade.CauseProbation, "%s", failed)
		case full && waits != "":
			return unfitFor(upgrade.CauseProbation, "upgrade.probation_bytes of results were held back before it had shown that it works: %s", waits)
		case waits == "" && (full || up >= least):
			if plantedHasty() {
				u.letGo()
			}
			return u.note(upgrade.Event{Kind: upgrade.Passed, Offline: !u.rec.Contact})
		}
		if e, over := upgrade.Overdue(u.rec, now()); over {
			if waits != "" {
				e.Why += ": " + waits
			}
			return unfitFor(e.Cause, "%s", e.Why)
		}
		if waits == "" {
			waits = fmt.Sprintf("it runs well, and is on trial for %s more", (least - up).Round(time.Second))
		}
		u.waits(waits)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// gates tells what has failed, and what has not come yet.
func (u *upgrader) gates(ctx context.Context) (failed, waits string) {
	for i := range u.rec.Savings {
		f, w := u.gatesOf(ctx, &u.rec.Savings[i])
		if f != "" {
			return f, ""
		}
		if w != "" {
			waits = w
		}
	}
	for _, s := range u.agent.sessions() {
		if st := s.mqtt.Stats(); st.State != sessionReady && !slices.Contains(u.rec.Away, "source "+s.name) {
			waits = fmt.Sprintf("broker %s is not connected, and was before: %s", s.name, st.Err)
		}
	}
	return "", waits
}

func (u *upgrader) gatesOf(ctx context.Context, saving *upgrade.Saving) (failed, waits string) {
	s := u.agent.named(saving.Name)
	if s == nil {
		return fmt.Sprintf("pipeline %s is not in the config any more", saving.Name), ""
	}
	s.mu.Lock()
	at, state, restarts, err := s.current, s.state, s.restarts, s.err
	if err == nil {
		err = s.failure
	}
	s.mu.Unlock()
	switch {
	case state == PipelineFailed, state == PipelineStopped, restarts > 0:
		return fmt.Sprintf("pipeline %s is %s: %v", s.name, state, err), ""
	case at == nil:
		return "", fmt.Sprintf("pipeline %s is %s", s.name, state)
	}
	pending, err := restorePendingIn(u.agent.pipelineDir(saving.UUID))
	if err != nil || pending {
		return "", fmt.Sprintf("pipeline %s has not restored its savepoint", s.name)
	}
	for _, l := range at.links {
		m := l.sender.Metrics()
		switch {
		case m.Fenced.Load():
			return fmt.Sprintf("pipeline %s, sink %s: %s", s.name, l.uid, m.LastError()), ""
		case !m.Prepared.Load() && m.Held() == "" && !slices.Contains(u.rec.Away, "sink "+s.name+"/"+l.uid):
			waits = fmt.Sprintf("pipeline %s, sink %s has not answered, and did before: %s", s.name, l.uid, m.LastError())
		}
	}
	if why := u.checkpoints(ctx, at); why != "" && s.running() == at {
		waits = why
	}
	return "", waits
}

// checkpoints wants three of each pipeline, and has those made that do not come by themselves.
func (u *upgrader) checkpoints(ctx context.Context, at *attempt) string {
	made := at.coordinator.Metrics().Committed
	if made >= trialCheckpoints {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	at.coordinator.Records(1) // none may have come
	if _, err := at.coordinator.Trigger(ctx); err != nil {
		return fmt.Sprintf("pipeline %s has made %d of %d checkpoints: %v", at.spec.Name.Value, made, trialCheckpoints, err)
	}
	return fmt.Sprintf("pipeline %s has made %d of %d checkpoints", at.spec.Name.Value, made+1, trialCheckpoints)
}

// heldBytes is what waits for the commit.
func (u *upgrader) heldBytes() (n int64) {
	if !u.held.holds() {
		return 0
	}
	for _, s := range u.agent.all() {
		if at := s.running(); at != nil {
			n += at.outbox.HeldBytes()
		}
	}
	return n
}

// commit makes the program the one for good. Only when the record says so results leave: a crash from there on loses none of them, since the next start holds nothing.
func (u *upgrader) commit(ctx context.Context) error {
	if err := u.backend.Commit(ctx); err != nil {
		return fmt.Errorf("commit slot %s: %w", u.here.Booted, err)
	}
	u.agent.die("upgrade-marked-good")
	if err := u.note(upgrade.Event{Kind: upgrade.Confirmed}); err != nil {
		return err
	}
	u.letGo()
	u.agent.log.Info("upgrade is committed", "version", u.rec.Target.Version, "from", u.rec.From.Version, "offline", u.rec.Offline)
	u.release()
	u.clean(ctx)
	for _, s := range u.agent.all() { // what did not run when the program was changed
		if errors.Is(s.parked, errUpgrading) {
			if err := s.ask(ctx, command{}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *upgrader) letGo() {
	if u.held == nil {
		return
	}
	u.held.over.Store(true)
	for _, s := range u.agent.all() {
		if at := s.running(); at != nil {
			at.outbox.LetGo()
		}
	}
}
