package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/agent/statedir"
)

// apply carries out one call.
func (p *applier) apply(ctx context.Context, k *applyAsk) *api.ApplyOutcome {
	if !p.rec.Resting() {
		return refusedApply(fmt.Errorf("%w: it is %s", ErrApplying, p.rec.State))
	}
	if err := p.agent.fence.err(); err != nil { // since it was asked for
		return refusedApply(err)
	}
	cfg, err := p.readNew(k)
	if err != nil {
		return refusedApply(err)
	}
	judging, cancel := context.WithCancel(ctx)
	defer context.AfterFunc(k.ctx, cancel)()
	defer cancel()
	d, err := p.judge(judging, k, cfg)
	switch {
	case errors.Is(err, savepoints.ErrDropsState):
		return &api.ApplyOutcome{Result: api.ApplyLosesState, Error: err.Error()}
	case err != nil:
		return refusedApply(err)
	case d.Nothing():
		if !k.o.DryRun {
			err = p.takeOver(cfg)
		}
		if err != nil {
			return refusedApply(err)
		}
		return &api.ApplyOutcome{Result: api.ApplyUnchanged}
	case k.o.DryRun:
		return &api.ApplyOutcome{Result: api.ApplyChanges}
	}
	if err := p.accept(k, cfg, d); err != nil {
		return refusedApply(err)
	}
	return p.finish(ctx, k)
}

// takeOver makes a config the one in force that differs in nothing that acts.
func (p *applier) takeOver(cfg *config.Config) error {
	if p.rec.InForce() == cfg.Digest() || p.rec.State == apply.None && p.agent.config.Digest() == cfg.Digest() {
		return nil
	}
	if err := p.store.Keep(cfg); err != nil {
		return err
	}
	if err := p.note(apply.Event{Kind: apply.Adopted, Record: apply.Record{New: cfg.Digest()}}); err != nil {
		return err
	}
	p.setConfig(cfg)
	return nil
}

func (p *applier) setConfig(cfg *config.Config) {
	next := *p.agent.roster.Load()
	next.config = cfg
	p.agent.roster.Store(&next)
}

// accept records the apply. Both configs are durable before.
func (p *applier) accept(k *applyAsk, cfg *config.Config, d *apply.Diff) error {
	a := p.agent
	old := a.roster.Load().config
	for _, c := range []*config.Config{old, cfg} {
		if err := p.store.Keep(c); err != nil {
			return err
		}
	}
	file := "" // it may be gone
	if f, err := config.Load(a.file); err == nil {
		file = f.Digest()
	}
	for i := range d.Pipelines {
		if d.Pipelines[i].Kind == apply.Added {
			continue
		}
		id, err := statedir.ParseUUID(a.registry.UUID(d.Pipelines[i].Name))
		if err != nil {
			return fmt.Errorf("registry: pipeline %s: %w", d.Pipelines[i].Name, err)
		}
		d.Pipelines[i].UUID = id.String() // as its directory and its hold are named
	}
	a.changing.Lock() // an apply and an upgrade exclude each other
	defer a.changing.Unlock()
	if err := a.upgrader.busy(); err != nil {
		return err
	}
	err := p.note(apply.Event{Kind: apply.Asked, Record: apply.Record{Old: old.Digest(), New: cfg.Digest(), File: file, AllowDropped: k.o.AllowDroppedState, Changes: d.Pipelines}})
	if err != nil {
		return err
	}
	p.old, p.next = old, cfg
	p.tidy()
	a.log.Info("a changed config is applied", "file", cfg.File, "pipelines", len(d.Pipelines))
	return nil
}

// tidy removes what the apply before has left: its configs and its savepoints. What cannot be removed now is the next time.
func (p *applier) tidy() {
	if err := p.store.Clean(&p.rec); err != nil {
		p.agent.log.Warn("what an earlier apply kept could not be removed", "error", err)
	}
	names, err := filepath.Glob(filepath.Join(restore.SavepointDir(p.agent.config), savepointPrefix+"*"+restore.SavepointSuffix))
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(name), p.savepointName("")) {
			err = errors.Join(err, os.Remove(name))
		}
	}
	if err != nil {
		p.agent.log.Warn("what an earlier apply kept could not be removed", "error", err)
	}
}

const savepointPrefix = "apply-"

// savepointName is that of S.
func (p *applier) savepointName(pipeline string) string {
	return fmt.Sprintf("%s%d-%s", savepointPrefix, p.rec.Number, pipeline)
}

// finish carries the apply on from the state that it is in to its end, or until ctx ends: then the next start does. k is nil for one that nobody waits for.
func (p *applier) finish(ctx context.Context, k *applyAsk) *api.ApplyOutcome {
	for !p.rec.Resting() {
		err := p.agent.fence.err()
		switch {
		case err != nil: // it stands until the device is taken back (settleApply)
		case p.rec.State == apply.Saving:
			if err = p.save(ctx, k); err != nil && ctx.Err() == nil && p.agent.fence.err() == nil {
				err = p.abort(ctx, err)
			}
		case p.rec.State == apply.Probation:
			err = p.try(ctx, k)
		case p.rec.State == apply.Returning:
			err = p.goBack(ctx, k)
		case p.rec.State == apply.Restoring:
			err = p.awaitRestored(ctx, k)
		}
		if ctx.Err() != nil {
			return &api.ApplyOutcome{Result: api.ApplyRefused, Error: "the agent is stopping within the apply; the next start goes on with it"}
		}
		if err != nil {
			if p.agent.fence.err() != nil {
				return &api.ApplyOutcome{Result: api.ApplyRefused, Error: fmt.Sprintf("the apply stands in %s: %v", p.rec.State, err)}
			}
			return &api.ApplyOutcome{Result: api.ApplyRefused, Error: fmt.Sprintf("the apply stands in %s, and is tried again: %v", p.rec.State, err)}
		}
	}
	p.old, p.next = nil, nil
	if p.rec.State == apply.Committed {
		return &api.ApplyOutcome{Result: api.ApplyCommitted}
	}
	return &api.ApplyOutcome{Result: api.ApplyGoneBack, Error: p.rec.Why}
}

// save stops what changes behind savepoints, and what goes.
func (p *applier) save(ctx context.Context, k *applyAsk) error {
	p.stopped = map[string]bool{}
	for _, c := range p.rec.Changes {
		s := p.agent.named(c.Name)
		switch {
		case c.Kind == apply.Removed && s.running() != nil:
			k.tell(api.ApplyEvent{Pipeline: c.Name, Doing: "stopping"})
			if err := s.ask(ctx, command{stop: true}); err != nil {
				return err
			}
			p.stopped[c.Name] = true
		case c.Kind == apply.Changed && c.Savepoint == "":
			k.tell(api.ApplyEvent{Pipeline: c.Name, Doing: "stopping with a savepoint"})
			if err := p.saveOne(ctx, s, c); err != nil {
				return fmt.Errorf("pipeline %s: %w", c.Name, err)
			}
		}
	}
	for _, s := range p.backTo() {
		if err := p.agent.order(s, p.rec.AllowDropped); err != nil {
			return err
		}
	}
	if err := p.agent.fence.err(); err != nil { // the pipelines may have been stopped by it
		return err
	}
	return p.note(apply.Event{Kind: apply.Switched})
}

func (p *applier) saveOne(ctx context.Context, s *supervisor, c apply.Change) error {
	left, err := p.agent.stopBehind(ctx, s, c.UUID, p.savepointName(c.Name), nil)
	if err != nil {
		return err
	}
	c.Savepoint, c.Checkpoint, c.Position, c.Plan = left.Savepoint, left.Checkpoint, left.Position, left.Plan
	for _, e := range left.Ends {
		c.Ends = append(c.Ends, apply.End{UID: e.UID, Seq: e.Seq})
	}
	p.stopped[c.Name] = true
	if err := p.note(apply.Event{Kind: apply.Saved, Change: c}); err != nil {
		return err
	}
	p.hold()
	return nil
}

// withdraw takes the orders to restore back, where they are not carried out.
func (p *applier) withdraw(changes []apply.Change) error {
	for _, c := range changes {
		if c.Kind != apply.Changed {
			continue
		}
		if err := p.agent.withdraw(c.UUID); err != nil {
			return err
		}
	}
	return nil
}

// abort gives an apply up while savepoints are made: the old plans go on where they stopped.
func (p *applier) abort(ctx context.Context, why error) error {
	if err := p.withdraw(p.rec.Changes); err != nil {
		return err
	}
	if err := p.note(apply.Event{Kind: apply.Failed, Why: why.Error()}); err != nil {
		return err
	}
	for _, c := range p.rec.Changes {
		if p.stopped[c.Name] {
			if err := p.agent.named(c.Name).ask(ctx, command{}); err != nil {
				return err
			}
		}
	}
	p.release()
	return nil
}

// goBack ends the new plans, drops what they made, and starts the old ones from S.
func (p *applier) goBack(ctx context.Context, k *applyAsk) error {
	a := p.agent
	p.held = nil // what it holds stays held until it is dropped
	a.log.Error("a changed config failed within its probation; going back", "why", p.rec.Why)
	k.tell(api.ApplyEvent{Doing: "going back: " + p.rec.Why})
	changed := map[string]bool{}
	for _, c := range p.rec.Changes {
		changed[c.Name] = true
	}
	for _, s := range a.all() {
		if changed[s.name] {
			a.dismiss(s)
		}
	}
	if err := p.drop(ctx); err != nil {
		return err
	}
	if err := p.reassign(ctx, p.old, nil); err != nil {
		return err
	}
	return p.resession(ctx, p.old)
}

// drop makes void what the new plans made, and has the old plans start from S. No pipeline of the apply runs.
func (p *applier) drop(ctx context.Context) error {
	for _, s := range p.backTo() {
		if err := p.agent.undo(ctx, s); err != nil {
			return err
		}
	}
	return p.note(apply.Event{Kind: apply.Dropped})
}

// backTo is where the old plans that change go on from.
func (p *applier) backTo() (list []saved) {
	for _, c := range p.rec.Changes {
		if c.Kind == apply.Changed {
			list = append(list, savedOf(c))
		}
	}
	return list
}

// reassign has the agent run a config: supervisors of runs that stay as they are go on, the others are made and started. No pipeline that the apply changes has one.
func (p *applier) reassign(ctx context.Context, cfg *config.Config, held *probation) error {
	a := p.agent
	r := a.roster.Load()
	ways := a.waysOf(cfg, r)
	runs := a.runsOf(cfg, ways)
	if err := a.registry.Adopt(p.names(runs)); err != nil {
		return err
	}
	a.offsites.strike(a.registry)
	next := &roster{config: cfg, sessions: r.sessions, ways: ways}
	var fresh []*supervisor
	for _, run := range runs {
		s := a.named(run.Name.Value)
		if s == nil {
			run.held = held
			var err error
			if s, err = a.supervise(run); err != nil {
				return err
			}
			fresh = append(fresh, s)
		}
		next.supervisors = append(next.supervisors, s)
	}
	a.roster.Store(next)
	for _, s := range fresh {
		if early := a.takeEarly(s.name); early != nil { // it may be another kind of store
			if err := early.Close(); err != nil {
				return fmt.Errorf("close checkpoints of %s: %w", s.name, err)
			}
		}
		a.spawn(s)
	}
	return ctx.Err()
}

// partOf finds a pipeline, or one of its regions, by name.
func partOf(cfg *config.Config, name string) *config.Pipeline {
	for _, p := range cfg.Pipelines {
		for _, r := range p.Regions() {
			if r.Name.Value == name {
				return r
			}
		}
	}
	return nil
}
