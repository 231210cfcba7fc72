package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot/savepoint"
)

func refusedApply(err error) *api.ApplyOutcome {
	return &api.ApplyOutcome{Result: api.ApplyRefused, Error: err.Error()}
}

// readNew reads and checks the config that is asked for, and refuses one that was gone back from.
func (p *applier) readNew(k *applyAsk) (cfg *config.Config, err error) {
	if k.o.Text != nil {
		cfg, err = config.LoadText(k.o.File, k.o.Text)
	} else {
		cfg, err = config.Load(k.o.File)
	}
	if err == nil {
		err = p.agent.settleBoard(cfg)
	}
	if err == nil {
		if missing := cfg.MissingBrokers(); len(missing) > 0 && len(p.agent.roster.Load().config.MissingBrokers()) == 0 {
			err = missing.Err()
		}
	}
	if err != nil {
		return nil, err
	}
	if d := cfg.Digest(); d == p.rec.Refused && d != p.rec.InForce() && !k.o.Again && !k.o.DryRun {
		return nil, fmt.Errorf("this very config was applied before and gone back from (%s); change it, or apply it --again", p.rec.Why)
	}
	return cfg, nil
}

// judge tells what becomes of each pipeline, before anything is touched. What the agent cannot do is an error; so is a loss of state that was not allowed
// (savepoints.ErrDropsState).
func (p *applier) judge(ctx context.Context, k *applyAsk, cfg *config.Config) (*apply.Diff, error) {
	a := p.agent
	d := apply.Compare(a.roster.Load().config, cfg)
	for _, name := range d.Unchanged {
		k.tell(api.ApplyEvent{Pipeline: name, Change: api.ApplyUnchanged})
	}
	refused := d.Refused
	var drops []error
	for _, c := range d.Pipelines {
		e := api.ApplyEvent{Pipeline: c.Name, Change: string(c.Kind)}
		if c.Kind == apply.Added {
			k.tell(e)
			continue
		}
		v, err := p.verdict(ctx, k, cfg, c)
		if v != nil {
			e.Steps, e.Schema = v.Lines, v.Schema
		}
		k.tell(e)
		if text := p.leftBehind(ctx, c, cfg); text != "" {
			k.tell(api.ApplyEvent{Pipeline: c.Name, Doing: text})
		}
		if was := p.agent.named(c.Name); c.Kind == apply.Changed && was != nil {
			if text := rescaled(was.spec.Graph, partOf(cfg, c.Name).Graph); text != "" {
				k.tell(api.ApplyEvent{Pipeline: c.Name, Doing: text})
			}
		}
		switch {
		case errors.Is(err, savepoints.ErrDropsState):
			drops = append(drops, fmt.Errorf("pipeline %s: %w", c.Name, err))
		case err != nil:
			refused = append(refused, err.Error())
		}
	}
	if len(d.Brokers)+len(d.Sources) > 0 {
		k.tell(api.ApplyEvent{Doing: "sessions change: " + strings.Join(append(d.Brokers, d.Sources...), ", ")})
		if err := p.tryUnion(cfg); err != nil {
			refused = append(refused, fmt.Sprintf("the sources of both configs cannot be subscribed to side by side, as a probation needs: %v; needs a restart", err))
		}
	}
	if len(refused) > 0 {
		return d, errors.New(strings.Join(refused, "; "))
	}
	return d, errors.Join(drops...)
}

// rescaled tells of another parallelism; "": it is the same.
func rescaled(old, new *plan.Graph) string {
	text := func(g *plan.Graph) string {
		switch {
		case g.Parallelism == plan.ParallelismAuto:
			return "auto"
		case g.Parallelism <= 1:
			return "1"
		}
		return strconv.Itoa(g.Parallelism)
	}
	if was, is := text(old), text(new); was != is {
		return fmt.Sprintf("parallelism %s becomes %s: state and results are the same for each", was, is)
	}
	return ""
}

// leftBehind tells what a pipeline that goes leaves: it is asked for on purpose, or its name was changed by mistake. "": nothing, or that is not known.
func (p *applier) leftBehind(ctx context.Context, c apply.Change, cfg *config.Config) string {
	s := p.agent.named(c.Name)
	if c.Kind != apply.Removed || s == nil || cfg.Pipeline(s.base) != nil {
		return ""
	}
	entries, results := uint64(0), uint64(0)
	if at := s.running(); at != nil {
		h, counts, err := savepoints.Survey(ctx, savepoints.Running{Hold: at.coordinator.Hold, Store: at.store, Graph: at.graph, About: savepoint.Head{Pipeline: c.Name}})
		if err == nil { // it goes all the same
			entries = savepoints.Held(h, counts)
		}
	}
	for _, st := range p.agent.Status().Pipelines {
		if st.Name == c.Name {
			for _, sink := range st.Sinks {
				results += sink.Pending
			}
		}
	}
	if entries+results == 0 {
		return ""
	}
	return fmt.Sprintf("its %d entries of state and %d undelivered results stay in state_dir, and no pipeline goes on with them, of its name neither; what is to go on elsewhere needs a savepoint first (weir savepoint create %s; start: savepoint FILE)",
		entries, results, c.Name)
}

// verdict judges a changed pipeline, or one that goes, by what it holds now.
func (p *applier) verdict(ctx context.Context, k *applyAsk, cfg *config.Config, c apply.Change) (*savepoints.Verdict, error) {
	s := p.agent.named(c.Name)
	if s == nil {
		return nil, fmt.Errorf("BUG: no pipeline %s", c.Name)
	}
	at := s.running()
	region := cfg.Pipeline(s.base) != nil
	if c.Kind == apply.Removed && !region {
		return nil, nil // on purpose; its state stays
	}
	if at == nil {
		return nil, fmt.Errorf("pipeline %s does not run, and a changed plan starts only from a savepoint to which the old plan ran; see weir status", c.Name)
	}
	h, counts, err := savepoints.Survey(ctx, savepoints.Running{Hold: at.coordinator.Hold, Store: at.store, Graph: at.graph, About: savepoint.Head{Pipeline: c.Name}})
	if err != nil {
		return nil, fmt.Errorf("pipeline %s: %w", c.Name, err)
	}
	if c.Kind == apply.Removed { // a region that is no more: as if all its steps were gone
		return savepoints.Judge(h, counts, &plan.Graph{}, k.o.AllowDroppedState)
	}
	return savepoints.Judge(h, counts, partOf(cfg, c.Name).Graph, k.o.AllowDroppedState)
}
