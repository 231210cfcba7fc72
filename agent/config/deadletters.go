package config

import (
	"slices"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline/plan"
)

// DeadLetters are the settings of what a pipeline could not use.
type DeadLetters struct {
	MaxBytes int64
	MaxAge   time.Duration // 0: never too old
	Sink     plan.Text     // uid of the sink whose target takes them too, in a stream of its own; "": they stay here
}

var deadLettersObject = &object[DeadLetters]{section: section{what: "dead_letters", list: []*setting{
	set("max_bytes", at(func(d *DeadLetters) *int64 { return &d.MaxBytes }).is(sizeKind{least: 4 << 20, most: 1 << 40}),
		"Most bytes that are kept, on flash. The oldest make room, counted.", byDefault("64MiB")),
	set("max_age", at(func(d *DeadLetters) *time.Duration { return &d.MaxAge }).is(durationKind{least: time.Second, never: "never"}),
		"Older ones are removed, counted: by the wall clock while it is trusted, else by the time that the agent ran.", byDefault("30d")),
	set("sink", at(func(d *DeadLetters) *plan.Text { return &d.Sink }).is(textKind{what: "the uid of a sink", pattern: plan.NamePattern, allowed: plan.NameAllowed}),
		"A sink of this pipeline whose target takes the dead letters as well, exactly once, in a stream of its own: UID.dead. Left out: they stay on this device."),
}}}

// checkDeadSink: the target has to take documents, and to know how far its stream is.
func (p *Pipeline) checkDeadSink(problems *plan.Problems) {
	at := p.Dead.Sink
	if at.Value == "" {
		return
	}
	var names []string
	for _, s := range p.Sinks {
		names = append(names, s.UID.Value)
	}
	i := slices.Index(names, at.Value)
	if i < 0 {
		problems.Add(at.Pos, "", "sinks of this pipeline are "+strings.Join(names, ", "), "there is no sink %s", quote(at.Value))
		return
	}
	const allowed = "http with protocol weir, nats, objects or file"
	switch s := p.Sinks[i]; {
	case s.Postgres != nil:
		problems.Add(at.Pos, "", allowed, "sink %s writes columns, dead letters are documents", quote(at.Value))
	case s.Objects != nil && s.Objects.Format.Value == plan.FormatCSV:
		problems.Add(at.Pos, "", allowed+"; objects with format json", "sink %s writes columns, dead letters are documents", quote(at.Value))
	case s.HTTP != nil && s.HTTP.Protocol == "plain":
		problems.Add(at.Pos, "", allowed, "sink %s has protocol plain, which cannot say what it holds", quote(at.Value))
	case s.File != nil && p.Restart.Failover == FailoverRegion:
		problems.Add(at.Pos, "", allowed+"; or restart.failover: full", "the parts of the pipeline would write their dead letters into one file of sink %s", quote(at.Value))
	}
}
