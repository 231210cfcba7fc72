package agent

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
)

const (
	// applyPoll is how often the pipelines on probation are looked at.
	applyPoll = 20 * time.Millisecond
	// gateWait is how long a probation that is over waits for what must have come in it: a first checkpoint, the answers of new sinks.
	gateWait = time.Minute
	// trialLeast is how long another program is on trial, whatever is set.
	trialLeast = 2 * time.Minute
)

// try starts the new plans, watches them, and ends the probation.
func (p *applier) try(ctx context.Context, k *applyAsk) error {
	if p.held == nil { // this process recorded the switch; else the agent started with them
		p.held = &probation{}
		if err := p.switchOver(ctx, k); err != nil {
			if end := p.ends(ctx); end != nil {
				return end
			}
			return p.note(apply.Event{Kind: apply.Failed, Why: err.Error()})
		}
	}
	why := p.watch(ctx, k)
	if end := p.ends(ctx); end != nil {
		return end
	}
	if why != "" {
		return p.note(apply.Event{Kind: apply.Failed, Why: why})
	}
	if err := p.note(apply.Event{Kind: apply.Passed}); err != nil {
		return err
	}
	return p.commit(ctx)
}

// ends tells why nothing is decided any more: the agent stops, or another device has taken its place, which stops the pipelines and says nothing about their plans.
func (p *applier) ends(ctx context.Context) error {
	return cmp.Or(ctx.Err(), p.agent.fence.err())
}

// switchOver puts the new plans in the place of the old ones.
func (p *applier) switchOver(ctx context.Context, k *applyAsk) error {
	k.tell(api.ApplyEvent{Doing: "starting the new plans; their results are held back"})
	for _, c := range p.rec.Changes {
		if s := p.agent.named(c.Name); s != nil {
			p.agent.dismiss(s)
		}
	}
	if err := p.resession(ctx, p.union()); err != nil {
		return err
	}
	return p.reassign(ctx, p.next, p.held)
}

// watch looks at the pipelines on probation until it is over: "" when all gates are passed, else why not.
func (p *applier) watch(ctx context.Context, k *applyAsk) (why string) {
	wait := p.next.Apply.Probation
	if !p.trying() {
		wait = 0
	}
	k.tell(api.ApplyEvent{Doing: fmt.Sprintf("on probation for %s", wait)})
	started, told := time.Now(), time.Now()
	tick := time.NewTicker(applyPoll)
	defer tick.Stop()
	for {
		since := time.Since(started)
		over := since >= wait
		if p.over != nil {
			over = p.over()
		}
		failed, waits, away := p.gates(ctx, over)
		switch {
		case p.ends(ctx) != nil:
			return ""
		case failed != "":
			return failed
		case over && waits+away == "":
			return ""
		case waits != "" && since >= max(wait, gateWait):
			return waits
		case waits == "" && since >= max(wait, p.sinkWait):
			return away
		}
		if time.Since(told) >= 10*time.Second {
			told = time.Now()
			k.tell(api.ApplyEvent{Doing: probationLeft(wait-since, max(wait, gateWait)-since, max(wait, p.sinkWait)-since, waits, away)})
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// probationLeft tells how long the probation lasts, or behind its end what it still waits for, and how long.
func probationLeft(left, gates, sinks time.Duration, waits, away string) string {
	switch {
	case left > 0:
		return fmt.Sprintf("on probation for %s more", left.Round(time.Second))
	case waits != "":
		return fmt.Sprintf("waiting for up to %s: %s", max(0, gates).Round(time.Second), waits)
	}
	return fmt.Sprintf("waiting for up to %s: %s", max(0, sinks).Round(time.Second), away)
}

// trying tells whether any plan is on probation: a pipeline that only goes needs none.
func (p *applier) trying() bool {
	for _, c := range p.rec.Changes {
		if c.Kind != apply.Removed {
			return true
		}
	}
	return false
}

// gates tells what has failed, what has not come yet, and which new sink has not answered. At the end of the probation a checkpoint is made that has not come by itself.
func (p *applier) gates(ctx context.Context, end bool) (failed, waits, away string) {
	for _, c := range p.rec.Changes {
		if c.Kind == apply.Removed {
			continue
		}
		s := p.agent.named(c.Name)
		s.mu.Lock()
		at, state, restarts, err := s.current, s.state, s.restarts, cmp.Or(s.err, s.failure)
		s.mu.Unlock()
		switch {
		case state == PipelineStopped:
			return fmt.Sprintf("pipeline %s was stopped", c.Name), "", ""
		case state == PipelineFailed, restarts > 0:
			return fmt.Sprintf("pipeline %s failed: %v", c.Name, err), "", ""
		case at == nil:
			waits = fmt.Sprintf("pipeline %s is %s", c.Name, state)
			continue
		}
		if failed, silent := at.gates(p.otherSinks(c)); failed != "" {
			return failed, "", ""
		} else if silent != "" {
			away = silent
		}
		if why := at.firstCheckpoint(ctx, end); why != "" && s.running() == at {
			waits = why
		}
	}
	return "", waits, away
}

// firstCheckpoint tells why there is none yet; at the end of the probation it makes one.
func (a *attempt) firstCheckpoint(ctx context.Context, end bool) string {
	if a.coordinator.Metrics().Committed > 0 {
		return ""
	}
	why := fmt.Sprintf("pipeline %s has made no checkpoint", a.spec.Name.Value)
	if !end {
		return why
	}
	ctx, cancel := context.WithTimeout(ctx, gateWait)
	defer cancel()
	a.coordinator.Records(1) // none may have come: the checkpoint is to be made all the same
	if _, err := a.coordinator.Trigger(ctx); err != nil {
		return fmt.Sprintf("%s: %v", why, err)
	}
	return ""
}

// otherSinks are those of a change that must have answered.
func (p *applier) otherSinks(c apply.Change) map[string]bool {
	var old *config.Pipeline
	if c.Kind == apply.Changed {
		old = partOf(p.old, c.Name)
	}
	return apply.OtherSinks(old, partOf(p.next, c.Name))
}

// gates looks at the sinks. One that was there before may be away, as at any time; a new one must have answered.
func (a *attempt) gates(other map[string]bool) (failed, waits string) {
	for _, l := range a.links {
		m := l.Sender.Metrics()
		switch {
		case m.Fenced.Load():
			return fmt.Sprintf("pipeline %s, sink %s: %s", a.spec.Name.Value, l.UID, m.LastError()), ""
		case other[l.UID] && !m.Prepared.Load() && m.Held() == "":
			waits = fmt.Sprintf("pipeline %s, sink %s has not answered", a.spec.Name.Value, l.UID)
			if text := m.LastError(); text != "" {
				waits += ": " + text
			}
		}
	}
	return "", waits
}

// commit lets go of what was held, and of what the old config had. The record says committed: a crash from here on loses none of it, since the next start holds nothing.
func (p *applier) commit(ctx context.Context) error {
	a := p.agent
	p.held.over.Store(true)
	p.held = nil
	for _, s := range a.all() {
		if at := s.running(); at != nil {
			at.outbox.LetGo()
		}
	}
	var names []string
	for _, s := range a.all() {
		names = append(names, s.name)
	}
	if err := a.registry.Adopt(names); err != nil {
		return err
	}
	a.offsites.strike(a.registry)
	p.release()
	for _, c := range p.rec.Changes {
		if c.Kind == apply.Removed {
			a.journal.Release(c.UUID)
		}
	}
	a.log.Info("the changed config is in force", "file", p.next.File)
	return p.resession(ctx, p.next)
}

// awaitRestored waits until the old plans stand on the checkpoints that S became. Then nothing needs S any more.
func (p *applier) awaitRestored(ctx context.Context, k *applyAsk) error {
	k.tell(api.ApplyEvent{Doing: "starting the old plans from the savepoints"})
	if err := p.agent.awaitBack(ctx, p.backTo()); err != nil {
		return err
	}
	if err := p.note(apply.Event{Kind: apply.Restored}); err != nil {
		return err
	}
	p.release()
	return nil
}
