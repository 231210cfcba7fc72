package plan

import (
	"fmt"
	"strings"
	"time"

	"github.com/weirstream/weir/pipeline"
)

// Explain tells an operator what a pipeline does, for `weir check` and `weir plan`: sources, steps, sinks with what each
// promises and how much later its results come.
func Explain(spec *Spec, g *Graph) string {
	var b strings.Builder
	fmt.Fprintf(&b, "pipeline %s  plan %x\n", g.Name, g.Hash[:6])
	for _, s := range g.Sources {
		explainSource(&b, s)
	}
	name := func(r Ref) string {
		switch {
		case r.Step < 0:
			return g.Sources[r.Source].Name
		case g.Steps[r.Step].PortNames[r.Port] != "":
			return g.Steps[r.Step].UID + "." + g.Steps[r.Step].PortNames[r.Port]
		}
		return g.Steps[r.Step].UID
	}
	for _, s := range g.Steps {
		from := make([]string, len(s.Inputs))
		for i, in := range s.Inputs {
			from[i] = name(in)
		}
		fmt.Fprintf(&b, "  step    %s  %s from %s", s.UID, s.Kind, strings.Join(from, ", "))
		if s.Stateful {
			b.WriteString(", keeps state")
			if s.Was != "" {
				fmt.Fprintf(&b, " (of %s)", s.Was)
			}
		}
		b.WriteByte('\n')
		if s.Columns != nil {
			fmt.Fprintf(&b, "          columns: %s\n", columnList(s.Columns))
		}
		if s.Added != nil {
			fmt.Fprintf(&b, "          adds: %s\n", columnList(s.Added))
		}
	}
	explainRegions(&b, spec, g)
	lossy := ""
	for _, s := range g.Sources {
		if s.QoS == 0 {
			lossy = " of what arrives (QoS 0 may lose messages before)"
		}
	}
	for _, s := range g.Sinks {
		fmt.Fprintf(&b, "  sink    %s  from %s to %s\n", s.UID, name(s.From), s.targetText())
		fmt.Fprintf(&b, "          %s%s; %s\n", s.promise(), lossy, s.latency(spec))
	}
	return b.String()
}

func explainSource(b *strings.Builder, s *Source) {
	fmt.Fprintf(b, "  source  %s  mqtt %s qos %d\n", s.Name, Printable(s.Filter), s.QoS)
	fmt.Fprintf(b, "          fields used: %s\n", columnList(s.Columns))
	switch {
	case s.Time == nil:
		b.WriteString("          no event time\n")
	default:
		fmt.Fprintf(b, "          event time: %s in %s, up to %s out of order", Printable(s.Columns[s.Time.Slot].Name), s.Time.Unit, ms(s.Time.OutOfOrdernessMs))
		if s.Time.MaxAheadMs > 0 {
			fmt.Fprintf(b, ", at most %s ahead", ms(s.Time.MaxAheadMs))
		}
		if len(s.Time.By) > 0 {
			var names []string
			for _, slot := range s.Time.By {
				names = append(names, Printable(s.Columns[slot].Name))
			}
			fmt.Fprintf(b, ", a watermark for each %s (at most %d)", strings.Join(names, ", "), s.Time.KeysMax)
		}
		b.WriteByte('\n')
		if s.Idle == nil {
			b.WriteString("          no idle rule: while nothing arrives its time stands still and windows stay open\n")
		}
	}
	if s.Idle != nil {
		what := "others wait for it"
		if s.Idle.Advance {
			what = "its time goes on with the clock"
		}
		fmt.Fprintf(b, "          idle after %s: %s\n", time.Duration(s.Idle.AfterNs), what)
	}
}

// explainRegions tells which steps run in instances. The rest of a pipeline runs in one.
func explainRegions(b *strings.Builder, spec *Spec, g *Graph) {
	in := fmt.Sprintf("%d instances", g.Parallelism)
	switch {
	case g.Parallelism == ParallelismAuto:
		in = "an instance per core"
	case g.Parallelism <= 1:
		in = "one instance (parallelism: 1)"
	}
	for _, t := range g.Tasks {
		for _, r := range t.Regions {
			var uids []string
			for _, i := range r.Steps {
				uids = append(uids, g.Steps[i].UID)
			}
			fmt.Fprintf(b, "  keyed   %s  by %s in %s\n", strings.Join(uids, ", "), keyNames(spec, g, r), in)
		}
	}
}

// keyNames is the key of a region as its first keyed step has it in the config.
func keyNames(spec *Spec, g *Graph, r Region) string {
	for _, i := range r.Steps {
		for _, s := range spec.Steps {
			if s.UID.Value != g.Steps[i].UID || g.Steps[i].Keyed == nil {
				continue
			}
			by := s.By
			if s.Dedup != nil {
				by = s.Dedup.Key
			}
			if s.Join != nil {
				for _, on := range s.Join.On {
					by = append(by, on.Left)
				}
			}
			names := make([]string, len(by))
			for n, k := range by {
				names[n] = Printable(k.Value)
			}
			return strings.Join(names, ", ")
		}
	}
	return ""
}

func columnList(cols []Column) string {
	if len(cols) == 0 {
		return "none"
	}
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = Printable(c.Name)
		if c.Kind != pipeline.Null {
			parts[i] += " (" + c.Kind.String() + ")"
		}
	}
	return strings.Join(parts, ", ")
}

func ms(n int64) string { return (time.Duration(n) * time.Millisecond).String() }

func (s *Sink) targetText() string {
	switch {
	case s.Spec.HTTP != nil:
		url, _, _ := strings.Cut(s.Spec.HTTP.URL.Value, "?") // a query may hold a key
		return "http " + Printable(url)
	case s.Spec.Postgres != nil:
		return "postgres " + Printable(s.Spec.Postgres.Schema.Value+"."+s.Spec.Postgres.Table.Value)
	case s.Spec.File != nil:
		return "file " + Printable(s.Spec.File.Path.Value)
	case s.Spec.Objects != nil:
		return s.Spec.Objects.text()
	case s.Spec.NATS != nil:
		return s.Spec.NATS.text()
	case s.Spec.MQTT != nil:
		return s.Spec.MQTT.text()
	case s.Spec.Influx != nil:
		return s.Spec.Influx.text()
	}
	return "nowhere"
}

func (s *Sink) promise() string {
	switch {
	case s.Commit == CommitAtLeastOnce:
		return "at least once (checkpoint.mode at-least-once: results may repeat after a crash)"
	case s.Spec.MQTT != nil && s.Spec.MQTT.QoS == 2:
		return "exactly once while the broker keeps the session; else a consumer finds repeats by stream and sequence"
	case s.Spec.MQTT != nil:
		return "at least once (a consumer finds repeats by stream and sequence)"
	case s.Guarantee() != "exactly-once":
		return "at least once (protocol plain: the endpoint does not deduplicate by sequence)"
	}
	if !s.Deterministic { // RULES 14
		return "exactly once from the newest checkpoint only: a step before it may give other results when an older one is restored"
	}
	if s.Spec.Influx != nil {
		return "exactly once: a repeat is the same point; results of one series and time are one point"
	}
	return "exactly once"
}

func (s *Sink) latency(spec *Spec) string {
	switch s.Commit {
	case CommitImmediate:
		return "results leave as soon as their records are durable"
	case CommitAtLeastOnce:
		return "results leave at once"
	}
	return fmt.Sprintf("results wait for their checkpoint: up to %s later", ms(spec.CommitIntervalMs))
}
