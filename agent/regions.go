package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/uplink"
)

// run is a pipeline as the agent runs it: whole, or one of its regions (restart.failover: region). Each has a supervisor, a place in the
// journal, checkpoints, an outbox and dead letters of its own; nothing joins two of them.
type run struct {
	*config.Pipeline
	refused error // why it must not run; nil: it may
	config  *config.Config
	ways    map[string]*uplink.Link
	held    *probation // nil: its results may leave
	live    bool       // those of sinks with probation: live may leave all the same
}

// runsOf decides what the agent runs. A pipeline whose state was made under the other failover setting keeps that division and is refused: its
// state would not fit the new one, and to begin empty in silence would lose what lies between.
func (a *Agent) runsOf(cfg *config.Config, ways map[string]*uplink.Link) (runs []run) {
	defer func() {
		for i := range runs {
			runs[i].config, runs[i].ways = cfg, ways
		}
	}()
	for _, p := range cfg.Pipelines {
		whole, regions := []*config.Pipeline{p}, p.Regions()
		switch {
		case p.Restart.Failover == config.FailoverRegion && a.hasRun(p.Name.Value):
			runs = append(runs, run{Pipeline: p, refused: refusedFailover(p, config.FailoverFull)})
			continue
		case p.Restart.Failover != config.FailoverRegion && a.hasRunInRegions(p.Name.Value):
			divided := *p
			divided.Restart.Failover = config.FailoverRegion // what Regions makes is kept in the copy
			for _, r := range divided.Regions() {
				runs = append(runs, run{Pipeline: r, refused: refusedFailover(p, config.FailoverRegion)})
			}
			continue
		case p.Restart.Failover != config.FailoverRegion:
			regions = whole
		}
		for _, r := range regions {
			runs = append(runs, run{Pipeline: r})
			a.allowEmpty.extend(p.Name.Value, r.Name.Value)
			a.acceptGap.extend(p.Name.Value, r.Name.Value)
		}
	}
	return runs
}

func refusedFailover(p *config.Pipeline, before string) error {
	return fmt.Errorf("%w: pipeline %s ran with restart.failover: %s, and its state does not fit %s; set it back, or give the pipeline a new name to start empty",
		errFinal, p.Name.Value, before, p.Restart.Failover)
}

// hasRun tells whether a registered pipeline has a checkpoint somewhere.
func (a *Agent) hasRun(name string) bool {
	id, err := statedir.ParseUUID(a.registry.UUID(name))
	if err != nil {
		return false
	}
	_, err = os.Stat(filepath.Join(a.pipelinesDir(), id.String(), statedir.BegunFile))
	return err == nil
}

func (a *Agent) hasRunInRegions(base string) bool {
	for name := range a.registry.Pipelines {
		if strings.HasPrefix(name, base+plan.PartSeparator) && a.hasRun(name) {
			return true
		}
	}
	return false
}

// supervisorsOf finds a pipeline by name: a region, or all regions of a pipeline.
func (a *Agent) supervisorsOf(name string) (list []*supervisor, err error) {
	for _, s := range a.all() {
		if s.name == name || s.base == name {
			list = append(list, s)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: %q", api.ErrNotFound, name)
	}
	return list, nil
}

// supervisorOf is for what only one region can be asked.
func (a *Agent) supervisorOf(name string) (*supervisor, error) {
	list, err := a.supervisorsOf(name)
	if err != nil {
		return nil, err
	}
	if len(list) > 1 {
		var names []string
		for _, s := range list {
			names = append(names, s.name)
		}
		return nil, fmt.Errorf("pipeline %s runs in regions; name one of %s", name, strings.Join(names, ", "))
	}
	return list[0], nil
}

// regionWith finds the running region that has the steps to be tapped.
func (a *Agent) regionWith(name string, o api.TapOptions) (*attempt, error) {
	list, err := a.supervisorsOf(name)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if at := s.running(); at != nil && len(list) > 1 && at.has(o.Steps) {
			return at, nil
		}
	}
	return a.runningOf(name)
}

// has tells whether all these steps are in the graph.
func (a *attempt) has(edges []string) bool {
	for _, e := range edges {
		found := false
		for _, s := range a.graph.Steps {
			found = found || e == s.UID || strings.HasPrefix(e, s.UID+".")
		}
		if !found {
			return false
		}
	}
	return true
}
