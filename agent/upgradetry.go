//go:build !nocentral

package agent

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/upgrade"
)

// trialPoll is how often the pipelines on trial are looked at.
const trialPoll = 100 * time.Millisecond

// watch looks at the program on trial until it is over: it stays, or is gone back from.
func (u *upgrader) watch(ctx context.Context) error {
	if u.killed != "" { // before anything that may stand still once more
		return unfitFor(upgrade.CauseProbation, "it was ended in its probation: %s", u.killed)
	}
	plantedStandstill()
	tick := time.NewTicker(trialPoll)
	defer tick.Stop()
	for {
		failed, cause := u.failed()
		full := u.heldBytes() >= u.agent.config.Upgrade.ProbationBytes
		trial := u.trial(ctx, full)
		v := upgrade.Judge(u.rec, trial)
		if full && !v.Passed && v.Failed == "" { // what only wants time has had it
			trial.Up, trial.On = math.MaxInt64, math.MaxInt64
			v = upgrade.Judge(u.rec, trial)
		}
		lacks := strings.Join(v.Lacks, "; ")
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case u.agent.fence.err() != nil:
			return u.agent.fence.err()
		case failed != "":
			return unfitFor(cause, "%s", failed)
		case v.Failed != "":
			return unfitFor(upgrade.CauseProbation, "%s", v.Failed)
		case v.Passed:
			if plantedHasty() {
				u.letGo()
				u.agent.plantedDelivery()
			}
			return u.note(upgrade.Event{Kind: upgrade.Passed, Offline: v.Offline})
		case full:
			return unfitFor(causeOf(&v), "upgrade.probation_bytes of results were held back before it had shown that it works: %s", lacks)
		}
		if e, over := upgrade.Overdue(u.rec, now()); over || trialOver(time.Since(u.watched)) {
			return unfitFor(causeOf(&v), "%s: %s", cmp.Or(e.Why, "the new program did not pass its probation"), lacks)
		}
		u.waits(lacks)
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// failed tells what no waiting mends: a pipeline that failed on trial, which the old program ran. One that the full disk has failed says nothing against the program.
func (u *upgrader) failed() (why string, cause upgrade.Cause) {
	for i := range u.rec.Savings {
		s := u.agent.named(u.rec.Savings[i].Name)
		if s == nil {
			continue // Judge says so
		}
		s.mu.Lock()
		state, restarts, err, at := s.state, s.restarts, cmp.Or(s.err, s.failure), s.current
		s.mu.Unlock()
		if state == PipelineFailed || state == PipelineStopped || restarts > 0 {
			if diskFull(err) {
				cause = upgrade.CauseSpace
			}
			return fmt.Sprintf("pipeline %s is %s: %v", s.name, state, err), cmp.Or(cause, upgrade.CauseProbation)
		}
		if at == nil {
			continue
		}
		for _, l := range at.links {
			if m := l.Sender.Metrics(); m.Fenced.Load() {
				return fmt.Sprintf("pipeline %s, sink %s: %s", s.name, l.UID, m.LastError()), upgrade.CauseProbation
			}
		}
	}
	return "", ""
}

// trial gathers what the gates of the commit ask for. hurry: there is no other look, so that checkpoints that lack are made now.
func (u *upgrader) trial(ctx context.Context, hurry bool) upgrade.Trial {
	up := time.Since(u.watched)
	if u.least != trialLeast && up >= u.least { // a test has no time
		up += max(trialLeast, upgrade.UpSystem)
	}
	t := upgrade.Trial{System: u.caps.NeedsReboot, Up: up, On: time.Since(u.watched), Killed: u.killed, Fetched: u.heardOnTrial()}
	if at := now(); at.Boot == u.rec.Began.Boot {
		t.On = time.Duration(at.Ns - u.rec.Began.Ns)
	}
	for i := range u.rec.Savings {
		if s := u.agent.named(u.rec.Savings[i].Name); s != nil {
			t.Pipelines = append(t.Pipelines, u.tried(ctx, s, &u.rec.Savings[i], hurry))
		}
	}
	if t.Ends = u.agent.farEnds(); plantedSilence() {
		t.Ends[len(t.Ends)-1].Answered = false
	}
	return t
}

func (u *upgrader) tried(ctx context.Context, s *supervisor, saving *upgrade.Saving, hurry bool) upgrade.Tried {
	t := upgrade.Tried{Name: s.name}
	at := s.running()
	if at == nil {
		t.Why = "it is not there yet"
		return t
	}
	if pending, err := restore.Pending(u.agent.pipelineDir(saving.UUID)); err != nil || pending {
		t.Why = "it has not restored its savepoint"
		return t
	}
	t.From = saving.SHA256 // the order names it, and goes only when that very savepoint was restored
	t.Checkpoints = at.rounds()
	for n := 0; t.Checkpoints < upgrade.CheckpointsAsked && (n == 0 || hurry && n < upgrade.CheckpointsAsked); n++ {
		t.Checkpoints = u.checkpoint(ctx, at)
	}
	return t
}

// checkpoint has one made: none may come by itself.
func (u *upgrader) checkpoint(ctx context.Context, at *attempt) int {
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	at.coordinator.Records(1)
	if _, err := at.coordinator.Trigger(ctx); err != nil && ctx.Err() == nil {
		at.log.Warn("no checkpoint on trial", "error", err)
	}
	return at.rounds()
}

// rounds are the checkpoints of this attempt, those too for which there was nothing to write.
func (a *attempt) rounds() int {
	m := a.coordinator.Metrics()
	return int(m.Committed + m.Idle)
}

// farEnds are the sources and sinks, and whether they answer.
func (a *Agent) farEnds() (list []upgrade.FarEnd) {
	for _, s := range a.sessions() {
		list = append(list, upgrade.FarEnd{Name: "source " + s.name, Answered: s.mqtt.Stats().State == sessionReady})
	}
	for _, s := range a.all() {
		at := s.running()
		if at == nil {
			continue
		}
		for _, l := range at.links {
			m := l.Sender.Metrics()
			list = append(list, upgrade.FarEnd{Name: "sink " + s.name + "/" + l.UID, Answered: m.Prepared.Load() || m.Held() != ""})
		}
	}
	return list
}

const sessionReady = "ready"

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
	if u.backend == nil {
		return errNoBackend
	}
	if err := u.backend.Commit(ctx); err != nil {
		return fmt.Errorf("commit slot %s: %w", u.here.Booted, err)
	}
	u.agent.die("upgrade-marked-good")
	if err := u.note(upgrade.Event{Kind: upgrade.Confirmed}); err != nil {
		return err
	}
	u.letGo()
	u.agent.log.Info("upgrade is committed", "version", u.rec.Target.Version, "from", u.rec.From.Version, "offline", u.rec.Offline)
	u.unhold()
	u.clean(ctx)
	u.owed = u.start // what did not run when the program was changed
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
