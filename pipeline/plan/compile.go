package plan

import (
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/suggest"
)

// Compile checks a pipeline and makes its graph. It finds every problem that it can, not the first alone; the graph is nil
// when there is one, or when the spec lacks something that its reader has told of. Warnings are what works but not as one may think. It does no I/O and keeps nothing.
func Compile(spec *Spec) (graph *Graph, problems, warnings Problems) {
	return (&compiler{spec: spec}).compile()
}

func (c *compiler) compile() (graph *Graph, problems, warnings Problems) {
	spec := c.spec
	c.origins, c.out = make([]*origin, len(spec.Sources)), map[[2]int]*edge{}
	c.resolve()
	if order := c.order(); order != nil {
		c.reach()
		for _, i := range order {
			c.step(i)
		}
		for i := range spec.Sinks {
			c.sink(i)
		}
	}
	if len(c.problems) > 0 || slices.Contains(c.steps, nil) || slices.Contains(c.sinks, nil) {
		return nil, c.problems.Sorted(), c.warnings.Sorted()
	}
	c.warnFuture()
	c.warnUnread()
	c.warnIdle()
	g := c.finish()
	if len(c.problems) > 0 {
		return nil, c.problems.Sorted(), c.warnings.Sorted()
	}
	return g, nil, c.warnings.Sorted()
}

// target is what a from names.
type target struct {
	source int // index into spec.Sources, -1: a step
	step   int // index into spec.Steps
	port   int
}

// edge is a stream of rows between two parts of a pipeline.
type edge struct {
	scope scope
	timed bool // rows have event time
}

type compiler struct {
	spec     *Spec
	problems Problems
	warnings Problems

	stepInputs [][]target // per step of the spec; only what resolved
	sinkInput  []*target
	rank       []int // per step of the spec: its number in plan order
	origins    []*origin
	out        map[[2]int]*edge // {step, port}: what came out of the compiled steps
	chance     string           // uid of a step that counts as not deterministic; only tests set it: the language has no chance yet
	steps      []*built         // per step of the spec; nil: not compiled, its problem is noted
	sinks      []*builtSink
}

// resolve checks the names and finds what each from means.
func (c *compiler) resolve() {
	c.names()
	c.stepInputs = make([][]target, len(c.spec.Steps))
	c.steps = make([]*built, len(c.spec.Steps))
	c.sinkInput = make([]*target, len(c.spec.Sinks))
	c.sinks = make([]*builtSink, len(c.spec.Sinks))
	for i, s := range c.spec.Steps {
		seen := map[string]bool{}
		for _, from := range s.From {
			if seen[from.Value] {
				c.problems.Add(from.Pos, "", "each input stands once", "step %s takes %q twice", s.UID, from)
			}
			seen[from.Value] = true
			if t := c.lookup(from); t != nil {
				c.stepInputs[i] = append(c.stepInputs[i], *t)
			}
		}
	}
	for i, s := range c.spec.Sinks {
		if s.From.Value != "" {
			c.sinkInput[i] = c.lookup(s.From)
		}
	}
}

// names refuses doubled ones.
func (c *compiler) names() {
	taken := map[string]string{}
	for _, s := range c.spec.Sources {
		taken[s.Name.Value] = "a source"
	}
	lines := map[string]int{}
	for _, s := range c.spec.Steps {
		uid := s.UID
		if uid.Value == "" {
			continue
		}
		switch {
		case lines[uid.Value] > 0:
			c.problems.Add(uid.Pos, "", "each uid stands once in a pipeline: state is kept under it", "two steps have the uid %q, the first at line %d", uid, lines[uid.Value])
		case taken[uid.Value] != "":
			c.problems.Add(uid.Pos, "", "sources and steps have different names", "the uid %q is the name of a source", uid)
		}
		if lines[uid.Value] == 0 {
			lines[uid.Value] = uid.Pos.Line
		}
	}
	was := map[string]bool{}
	for _, s := range c.spec.Steps {
		switch {
		case s.Was.Value == "":
			continue
		case lines[s.Was.Value] > 0:
			c.problems.Add(s.Was.Pos, "", "was names a uid that is no longer used", "step %s was %q, which is the uid of a step", s.UID, s.Was)
		case was[s.Was.Value]:
			c.problems.Add(s.Was.Pos, "", "one step takes over the state of a uid", "two steps were %q", s.Was)
		}
		was[s.Was.Value] = true
	}
	sinks := map[string]int{}
	for _, s := range c.spec.Sinks {
		if line, twice := sinks[s.UID.Value]; twice && s.UID.Value != "" {
			c.problems.Add(s.UID.Pos, "", "each sink is a stream of its own", "two sinks have the uid %q, the first at line %d", s.UID, line)
			continue
		}
		sinks[s.UID.Value] = s.UID.Pos.Line
	}
}

// lookup finds the source, step or port that a from names; nil when there is none, which it notes.
func (c *compiler) lookup(from Text) *target {
	name, port, dotted := strings.Cut(from.Value, ".")
	for i, s := range c.spec.Sources {
		if s.Name.Value == from.Value {
			return &target{source: i, step: -1}
		}
	}
	for i, s := range c.spec.Steps {
		if s.UID.Value != name || name == "" {
			continue
		}
		return c.portOf(from, i, port, dotted)
	}
	var sources, steps []string
	for _, s := range c.spec.Sources {
		sources = append(sources, s.Name.Value)
	}
	for _, s := range c.spec.Steps {
		if s.UID.Value != "" {
			steps = append(steps, s.UID.Value)
		}
	}
	c.problems.Add(from.Pos, suggest.Nearest(name, append(append([]string(nil), sources...), steps...)),
		allowedNames(sources, steps), "%q is no source or step", from)
	return nil
}

func allowedNames(sources, steps []string) string {
	text := "there are no sources"
	if len(sources) > 0 {
		text = "sources are " + strings.Join(sources, ", ")
	}
	if len(steps) > 0 {
		text += "; steps are " + strings.Join(steps, ", ")
	}
	return text
}

// edgeOf gives the rows behind a target; nil when it could not be compiled.
func (c *compiler) edgeOf(t target) *edge {
	if t.step >= 0 {
		return c.out[[2]int{t.step, t.port}]
	}
	o := c.originOf(t.source)
	return &edge{scope: o, timed: o.spec.Time != nil}
}

// originOf makes the scope of a source when the first step or sink reads it.
func (c *compiler) originOf(i int) *origin {
	if c.origins[i] != nil {
		return c.origins[i]
	}
	s := c.spec.Sources[i]
	filter, captures, problem := checkTopic(s.Topic)
	if problem != nil && s.Topic.Value != "" {
		c.problems = append(c.problems, *problem)
	}
	o := newOrigin(s, captures)
	o.source.Filter = filter
	c.origins[i] = o
	for _, f := range s.Fields {
		for _, capture := range captures {
			if f.Name.Value == capture.Name {
				c.warnings.Add(f.Name.Pos, "", "", "field %s of source %s is hidden by {%s} of its topic", f.Name, s.Name, capture.Name)
			}
		}
	}
	c.time(o)
	if s.Idle != nil {
		o.source.Idle = &Idle{AfterNs: s.Idle.AfterNs, Advance: s.Idle.Advance}
	}
	return o
}

// warnFuture warns where one stamp from the future would make all that follows late.
func (c *compiler) warnFuture() {
	timers := false
	for _, b := range c.steps {
		timers = timers || b.kind == KindWindow || b.kind == KindSort || b.kind == KindJoin && !b.spec.Join.Latest
	}
	for _, o := range c.origins {
		if timers && o != nil && o.spec.Time != nil && o.spec.Time.MaxAheadMs == 0 {
			c.warnings.Add(o.spec.Time.Pos, "", "set max_ahead", "source %s: one record with a time in the future makes all that follow late", o.spec.Name)
		}
	}
}

// time compiles where a source's event time is.
func (c *compiler) time(o *origin) {
	t := o.spec.Time
	if t == nil || t.Field.Value == "" {
		return
	}
	p, err := pipeline.ParsePath(t.Field.Value)
	if err != nil {
		c.problems.Add(t.Field.Pos, "", "a field such as ts or header.time", "%s", err)
		return
	}
	if t.Field.Value == metaTime {
		c.problems.Add(t.Field.Pos, "", "the field that the time is read from", "$time is the result of this setting")
		return
	}
	slot, kind, err := o.Field(p)
	if err != nil {
		c.problems.Add(t.Field.Pos, suggest.Nearest(t.Field.Value, o.Names()), "", "time: %s", err)
		return
	}
	unit, err := codec.ParseUnit(t.Unit.Value)
	if err != nil {
		return // said where the setting was read
	}
	written := unit == codec.RFC3339 || unit == codec.LocalTime
	if written && kind != pipeline.Null && kind != pipeline.String || kind == pipeline.Bool || kind == pipeline.JSON {
		c.problems.Add(t.Field.Pos, "", "numbers, or text for rfc3339 and local", "time: the field %s is %s, it cannot be a time in %s", t.Field, kind, unit)
	}
	o.source.Time = &Time{
		Slot: slot, Unit: unit, OutOfOrdernessMs: t.OutOfOrdernessMs, MaxAheadMs: t.MaxAheadMs, MinMs: t.MinMs, MaxMs: t.MaxMs,
		Local: c.local(t, unit), By: c.watermarkBy(o), KeysMax: t.WatermarkKeys,
	}
}
