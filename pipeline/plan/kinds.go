package plan

import (
	"strings"

	"github.com/weirstream/weir/pipeline/suggest"
)

// traits tell what a kind of step takes besides its own part, and what it is.
type traits struct {
	by, ttl bool
	state   bool // keeps something over restarts: it takes was and max_keys
	adds    bool // its rows have columns besides those that came in
}

var kinds = map[string]traits{
	KindFilter: {}, KindSelect: {}, KindUnion: {}, KindSplit: {}, KindFlatten: {adds: true}, KindCast: {adds: true},
	KindSort: {state: true},
	KindJoin: {state: true, ttl: true}, KindLookup: {adds: true},
	KindDedup: {state: true, ttl: true},
	KindAlarm: {state: true, by: true}, KindAbsence: {state: true, by: true},
	KindWindow: {state: true, by: true, ttl: true}, KindDeadband: {state: true, by: true, ttl: true},
	KindChanged: {state: true, by: true, ttl: true}, KindLag: {state: true, by: true, ttl: true, adds: true}, KindDelta: {state: true, by: true, ttl: true, adds: true},
	KindCounter: {state: true, by: true, ttl: true, adds: true}, KindZScore: {state: true, by: true, ttl: true, adds: true},
	KindThrottle: {state: true, by: true, ttl: true}, KindSample: {state: true, by: true, ttl: true},
}

// What the messages say that goes with them.
const (
	takeBy  = "by is for window, deadband, alarm, changed, lag, delta, counter, zscore, throttle, sample and absence; the key of a join is on"
	takeTTL = "ttl is for window, deadband, dedup, changed, lag, delta, counter, zscore, throttle, sample, and joins within a time or with the latest value"
)

// ports are the names of a step's outputs, in their numbers; "" is the one that the step's own name means.
func (c *compiler) ports(s *StepSpec) []string {
	kind, _ := s.kind()
	switch {
	case kind == KindWindow || kind == KindSort || kind == KindCounter || kind == KindJoin && !s.Join.Latest:
		return []string{"", portLate}
	case kind == KindSplit && s.Split.Share:
		return []string{PortIn, PortRest}
	case kind == KindSplit:
		var names []string
		for _, p := range s.Split.Ports {
			names = append(names, p.Name.Value)
		}
		return append(names, PortRest)
	}
	return []string{""}
}

// portOf finds an output of a step; nil when it has none of the name, which is noted.
func (c *compiler) portOf(from Text, step int, port string, dotted bool) *target {
	s := c.spec.Steps[step]
	kind, _ := s.kind()
	if kind == "" && s.Flawed {
		return nil // what it is could not be read, and was said
	}
	names := c.ports(s)
	if why := neverLate(s); port == portLate && why != "" {
		c.problems.Add(from.At(len(s.UID.Value)+1), "", "take "+s.UID.Value, "step %s has no late rows: %s", s.UID, why)
		return nil
	}
	for n, name := range names {
		if name == port && dotted == (name != "") {
			return &target{source: -1, step: step, port: n}
		}
	}
	var others []string
	for _, name := range names {
		if name != "" {
			others = append(others, s.UID.Value+"."+name)
		}
	}
	allowed := "its outputs are " + strings.Join(others, ", ")
	switch {
	case !dotted:
		c.problems.Add(from.Pos, "", allowed, "step %s is %s: its rows leave by its outputs", s.UID, article(kind))
		return nil
	case len(others) == 0:
		allowed = "its output is " + s.UID.Value
	case names[0] == "":
		allowed = "its outputs are " + s.UID.Value + " and " + strings.Join(others, ", ")
	}
	c.problems.Add(from.At(len(s.UID.Value)+1), suggest.Nearest(port, names), allowed, "step %s is %s, it has no output %q", s.UID, article(kind), port)
	return nil
}

// warnUnread warns of conditions of a split whose rows nobody takes.
func (c *compiler) warnUnread() {
	read := map[[2]int]bool{}
	for _, inputs := range c.stepInputs {
		for _, t := range inputs {
			read[[2]int{t.step, t.port}] = true
		}
	}
	for _, t := range c.sinkInput {
		if t != nil {
			read[[2]int{t.step, t.port}] = true
		}
	}
	for i, s := range c.spec.Steps {
		if s.Split == nil {
			continue
		}
		for n, p := range s.Split.Ports {
			if !read[[2]int{i, n}] {
				c.warnings.Add(p.Name.Pos, "", "", "nothing reads %s.%s: its rows end there", s.UID, p.Name)
			}
		}
	}
}

func article(kind string) string {
	if strings.Contains("aeiou", kind[:1]) && kind != KindUnion {
		return "an " + kind
	}
	return "a " + kind
}
