package config

import "github.com/weirstream/weir/pipeline/plan"

// Values of Restart.Failover.
const (
	FailoverFull   = "full"
	FailoverRegion = "region"
)

// failoverSetting is Flink's failover strategy.
var failoverSetting = set("failover", at(func(r *Restart) *string { return &r.Failover }).is(choiceKind{words: []string{FailoverFull, FailoverRegion}}),
	"What a failure restarts. full: the whole pipeline. region: the part of its graph that shares steps with what failed; each part has a reader, checkpoints and dead letters of its own, and shows in the status as PIPELINE/SINK (Flink's default).",
	byDefault(FailoverFull), flink("jobmanager.execution.failover-strategy"))

// Regions are what the agent runs of a pipeline: the pipeline itself, or with failover: region the parts of its graph that share no step.
func (p *Pipeline) Regions() []*Pipeline {
	if p.Restart.Failover != FailoverRegion {
		return []*Pipeline{p}
	}
	if p.regions != nil {
		return p.regions
	}
	for _, part := range plan.Components(&p.Spec) {
		r := *p
		r.Spec, r.Whole = *part, p
		r.Graph, _, _ = plan.Compile(&r.Spec)
		if r.Graph == nil {
			panic("BUG: a part of pipeline " + p.Name.Value + " does not compile though the whole does")
		}
		r.regions = nil
		p.regions = append(p.regions, &r)
	}
	return p.regions
}

// Base is the name that the config gives the pipeline: that of a region without its part.
func (p *Pipeline) Base() string {
	if p.Whole != nil {
		return p.Whole.Name.Value
	}
	return p.Name.Value
}
