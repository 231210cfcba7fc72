package agent

import (
	"context"
	"fmt"
	"slices"

	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/mqtt"
	"github.com/weirstream/weir/uplink"
)

// While an apply is on probation the agent subscribes to what both configs want: unsubscribing loses what comes meanwhile, and the old config may come back.
// What the new one does without is let go at the commit, what it added when it is gone back from. A session changes by a stop and a start with the broker's session
// kept, as an agent that restarts does.

// unionOf is the old config with the brokers and sources that the new one adds.
func unionOf(old, next *config.Config) *config.Config {
	both := *old
	both.Brokers, both.Sources = slices.Clone(old.Brokers), slices.Clone(old.Sources)
	for _, b := range next.Brokers {
		if old.Broker(b.Name.Value) == nil {
			both.Brokers = append(both.Brokers, b)
		}
	}
	for _, s := range next.Sources {
		if !slices.ContainsFunc(old.Sources, func(o *config.Source) bool { return o.Name.Value == s.Name.Value }) {
			both.Sources = append(both.Sources, s)
		}
	}
	return &both
}

func (p *applier) union() *config.Config { return unionOf(p.old, p.next) }

// subscribed is the config that the sessions of a start are made of.
func (p *applier) subscribed(cfg *config.Config) *config.Config {
	if p.rec.State == apply.Probation {
		return p.union()
	}
	return cfg
}

// tryUnion tells whether the sessions of both configs can be made.
func (p *applier) tryUnion(next *config.Config) error {
	for _, cfg := range []*config.Config{next, unionOf(p.agent.roster.Load().config, next)} {
		if _, err := p.agent.newSessions(cfg); err != nil {
			return err
		}
	}
	return nil
}

// resession has the agent read what a config says. Sessions that stay as they are go on.
func (p *applier) resession(ctx context.Context, cfg *config.Config) error {
	a := p.agent
	wanted, err := a.newSessions(cfg)
	if err != nil {
		return err
	}
	before := a.sessions()
	for i, s := range wanted {
		at := slices.IndexFunc(before, func(o *session) bool { return o.name == s.name })
		if at >= 0 && before[at].settings == s.settings {
			wanted[i] = before[at]
		}
	}
	for _, o := range before {
		if !slices.Contains(wanted, o) {
			o.quit()
			<-o.ended // what it received is durable and acknowledged
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var fresh []*session
	for _, s := range wanted {
		if slices.Contains(before, s) {
			continue
		}
		if err := mqtt.Rebuild(a.journal, s.mqtt); err != nil { // the old one's table is carried until the new one is there
			return fmt.Errorf("session of broker %s: %w", s.name, err)
		}
		fresh = append(fresh, s)
	}
	next := *a.roster.Load()
	next.sessions = wanted
	a.roster.Store(&next)
	for _, s := range fresh {
		a.connect(s)
	}
	return nil
}

// waysOf are the links of a config: the same as now where they have the same settings, since all pipelines share them.
func (a *Agent) waysOf(cfg *config.Config, r *roster) map[string]*uplink.Link {
	ways := a.newWays(cfg.Links)
	for _, l := range cfg.Links {
		for _, o := range r.config.Links {
			if o.Name.Value == l.Name.Value && apply.SameLink(o, l) {
				ways[l.Name.Value] = r.ways[l.Name.Value]
			}
		}
	}
	return ways
}
