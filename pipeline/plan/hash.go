package plan

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// hash is over what a pipeline means: names, kinds, parameters, schemas, the order of the steps. How the config is laid out,
// where sinks send to and when they commit does not show in it: results and state are the same.
func hash(g *Graph) [32]byte { return sha256.Sum256([]byte(Meaning(g))) }

// Meaning is what the plan hash is over, as text: what results and state depend on; its first line is its version. Two plans of one meaning have
// one hash.
func Meaning(g *Graph) string {
	var b strings.Builder
	b.WriteString("weir plan 1\n")
	for _, s := range g.Sources {
		fmt.Fprintf(&b, "source %q filter %q\n", s.Name, s.Filter)
		for _, c := range s.Captures {
			fmt.Fprintf(&b, " capture %d %s\n", c.Level, s.Columns[c.Slot].Name)
		}
		for _, c := range s.Columns {
			fmt.Fprintf(&b, " field %q %s\n", c.Name, c.Kind)
		}
		for _, d := range s.Decoders {
			fmt.Fprintf(&b, " decode %q %s%s\n", d.Topic, d.As, d.Params)
		}
		if t := s.Time; t != nil {
			fmt.Fprintf(&b, " time %q %s %d %d %d %d\n", s.Columns[t.Slot].Name, t.Unit, t.OutOfOrdernessMs, t.MaxAheadMs, t.MinMs, t.MaxMs)
			if t.Local != nil {
				fmt.Fprintf(&b, " local %s\n", t.Local)
			}
			for _, slot := range t.By {
				fmt.Fprintf(&b, " watermark by %q of %d\n", s.Columns[slot].Name, t.KeysMax)
			}
		}
		if i := s.Idle; i != nil {
			fmt.Fprintf(&b, " idle %d %v\n", i.AfterNs, i.Advance)
		}
	}
	ref := func(r Ref) string {
		if r.Step < 0 {
			return fmt.Sprintf("source %q", g.Sources[r.Source].Name)
		}
		return fmt.Sprintf("step %q.%d", g.Steps[r.Step].UID, r.Port)
	}
	for _, s := range g.Steps {
		fmt.Fprintf(&b, "step %q %s\n", s.UID, s.Kind)
		for _, in := range s.Inputs {
			fmt.Fprintf(&b, " from %s\n", ref(in))
		}
		fmt.Fprintf(&b, " %s\n", strings.ReplaceAll(s.Params, "\n", "\n "))
	}
	for _, s := range g.Sinks {
		fmt.Fprintf(&b, "sink %q from %s whole %v\n", s.UID, ref(s.From), s.Whole >= 0)
		for _, c := range s.Columns {
			fmt.Fprintf(&b, " column %q\n", c.Name)
		}
	}
	return b.String()
}
