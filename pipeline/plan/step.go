package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// behaviours are the versions of what each kind of step does: a binary in which one rises begins a new generation of the
// streams behind it when it replays (DESIGN.md §8). They never fall.
var behaviours = map[string]int{
	KindFilter: 1, KindSelect: 1, KindWindow: 1, KindDeadband: 1, KindAlarm: 1, KindDedup: 1, KindSort: 1, KindUnion: 1,
	KindChanged: 1, KindLag: 1, KindDelta: 1, KindCounter: 1, KindZScore: 1, KindThrottle: 1, KindSample: 1, KindAbsence: 1,
	KindFlatten: 1, KindCast: 1, KindSplit: 1,
	KindJoin: 1, KindLookup: 1,
}

// built is a compiled step.
type built struct {
	spec     *StepSpec
	kind     string
	out      []edge // per port
	fixed    *table // the columns of port 0; nil: those of the input
	stateful bool
	// clockless inputs have no say in the event time of what comes out; nil: each has.
	clockless []bool
	chance    bool
	programs  []*expr.Program
	new       func() pipeline.Operator
	validate  func() error
	// params writes the canonical form; called when all slots are given out.
	params func() string
	in     []*edge
	carry  []int  // slot of port 0 -> slot of the input, -1: none; nil: not known
	keyed  *Keyed // nil: not to be divided by key
	narrow bool   // Step.Narrow
}

// kind tells what a step is; more than one name is a problem of the caller.
func (s *StepSpec) kind() (kind string, given []string) {
	for _, k := range []struct {
		name string
		is   bool
	}{
		{KindFilter, s.Filter != nil}, {KindSelect, s.Select != nil}, {KindWindow, s.Window != nil}, {KindDeadband, s.Deadband != nil},
		{KindAlarm, s.Alarm != nil}, {KindDedup, s.Dedup != nil}, {KindSort, s.Sort != nil},
	} {
		if k.is {
			given = append(given, k.name)
		}
	}
	given = append(given, s.Operators.given()...)
	given = append(given, s.Joins.given()...)
	switch {
	case len(given) > 0:
		return given[0], given
	case len(s.From) > 1:
		return KindUnion, nil
	}
	return "", nil
}

const stepKinds = "a step is one of filter, select, cast, flatten, split, window, deadband, changed, lag, delta, counter, zscore, throttle, sample, alarm, absence, dedup, sort, lookup, join (two inputs), or a union (several inputs and nothing else)"

// step compiles one step of the spec.
func (c *compiler) step(i int) {
	s := c.spec.Steps[i]
	kind, given := s.kind()
	if !c.shape(s, kind, given) || len(c.stepInputs[i]) != len(s.From) || len(s.From) == 0 {
		return
	}
	inputs := make([]*edge, len(s.From))
	for k, t := range c.stepInputs[i] {
		if inputs[k] = c.edgeOf(t); inputs[k] == nil {
			return // what feeds it has a problem
		}
	}
	b := &built{spec: s, kind: kind, in: inputs}
	ok := false
	switch kind {
	case KindFilter:
		ok = c.filter(b, inputs[0])
	case KindSelect:
		ok = c.selects(b, inputs[0])
	case KindWindow:
		ok = c.window(b, inputs[0])
	case KindDeadband:
		ok = c.deadband(b, inputs[0])
	case KindAlarm:
		ok = c.alarm(b, inputs[0])
	case KindDedup:
		ok = c.dedup(b, inputs[0])
	case KindSort:
		ok = c.sort(b, inputs[0])
	case KindUnion:
		ok = c.union(b, inputs)
	case KindJoin:
		ok = c.join(b, inputs)
	case KindLookup:
		ok = c.find(b, inputs[0])
	default:
		ok = c.operator(b, inputs[0])
	}
	if !ok {
		return
	}
	b.chance = c.chance != "" && c.chance == s.UID.Value
	c.steps[i] = b
	for port := range b.out {
		c.out[[2]int{i, port}] = &b.out[port]
	}
}

// operator compiles those of Operators.
func (c *compiler) operator(b *built, in *edge) bool {
	compile := map[string]func(*built, *edge) bool{
		KindChanged: c.changed, KindLag: c.lag, KindDelta: c.delta, KindCounter: c.counter, KindZScore: c.zscore, KindThrottle: c.throttle,
		KindSample: c.sample, KindAbsence: c.absence, KindFlatten: c.flatten, KindCast: c.cast, KindSplit: c.split,
	}[b.kind]
	return compile != nil && compile(b, in)
}

// shape checks what parts a step has; false when it cannot be compiled.
func (c *compiler) shape(s *StepSpec, kind string, given []string) bool {
	name := "step " + s.UID.Value
	if s.UID.Value == "" {
		name = "the step"
	}
	ok := true
	refuse := func(at Pos, allowed, found string, args ...any) {
		c.problems.Add(at, "", allowed, found, args...)
		ok = false
	}
	switch {
	case len(given) > 1:
		refuse(s.Pos, "make each a step of its own", "%s is %s at once", name, strings.Join(given, " and "))
	case kind == "" && s.Flawed:
		return false
	case kind == "" && len(s.From) > 0:
		refuse(s.Pos, stepKinds, "%s does nothing", name)
	}
	if kind == KindJoin && len(s.From) != 2 && len(s.From) > 0 {
		refuse(s.From[0].Pos, "a join has two inputs: from: [left, right]", "%s is a join, the number of its inputs is %d", name, len(s.From))
	}
	if len(s.From) > 1 && len(given) > 0 && kind != KindJoin {
		refuse(s.From[1].Pos, "put a union step before it: {uid: NAME, from: [a, b]}", "%s is %s and has %d inputs", name, article(given[0]), len(s.From))
	}
	if s.Aggregate != nil && s.Window == nil {
		refuse(s.AggregatePos, "aggregate belongs to window", "%s has an aggregate and no window", name)
	}
	if s.Window != nil && len(s.Aggregate) == 0 && s.Top == nil {
		refuse(s.Window.Pos, "aggregate: {n: count()} and the like, or top", "%s has a window and no aggregate", name)
	}
	if s.Top != nil && (s.Window == nil || s.Aggregate != nil) {
		refuse(s.Top.Pos, "top stands beside a window, instead of aggregate", "%s has a top, and %s", name, map[bool]string{true: "no window", false: "an aggregate"}[s.Window == nil])
	}
	takes := kinds[kind]
	if len(s.By) > 0 && !takes.by {
		refuse(s.By[0].Pos, takeBy, "%s is %s, it has no key", name, article(kind))
	}
	if s.TTLNs != nil && !takes.ttl && kind != "" {
		refuse(s.Pos, takeTTL, "%s is %s, it has no ttl", name, article(kind))
	}
	if s.MaxKeys != nil && !takes.state && kind != "" {
		refuse(s.Pos, "max_keys is for steps with state", "%s is %s, it keeps no state", name, article(kind))
	}
	if s.Was.Value != "" && !takes.state && kind != "" {
		refuse(s.Was.Pos, "was is for steps with state", "%s is %s, it keeps no state", name, article(kind))
	}
	return ok
}

func (c *compiler) maxKeys(s *StepSpec) int {
	if s.MaxKeys != nil {
		return *s.MaxKeys
	}
	return c.spec.State.MaxKeys
}

func (c *compiler) ttl(s *StepSpec) int64 {
	if s.TTLNs != nil {
		return *s.TTLNs
	}
	return c.spec.State.TTLNs
}

// deterministic tells whether the step does the same at every replay.
func (b *built) deterministic() bool {
	for _, p := range b.programs {
		if !p.Deterministic() {
			return false
		}
	}
	return !b.chance
}

// keyText writes keys canonically.
func keyText(keys []key) string {
	paths := make([]string, len(keys))
	for i, k := range keys {
		paths[i] = k.path
	}
	return strings.Join(paths, ",")
}

// column adds an output column; a name that is there already is a problem at the given place.
func (c *compiler) column(t *table, name string, kind pipeline.Kind, at Pos) (slot int, ok bool) {
	for _, have := range t.cols {
		if have.Name == name {
			c.problems.Add(at, "", "each column has a name of its own; rename it with a select step before", "%s would have two columns %q", t.what, name)
			return 0, false
		}
	}
	return t.add(name, kind), true
}

func stepName(s *StepSpec) string { return fmt.Sprintf("step %s", s.UID.Value) }
