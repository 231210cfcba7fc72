package plan

import (
	"slices"
	"strings"
	"testing"
)

func on(fields ...string) (all []OnSpec) {
	for _, f := range fields {
		left, right, other := strings.Cut(f, "=")
		if !other {
			right = left
		}
		all = append(all, OnSpec{Left: text(left), Right: text(right)})
	}
	return all
}

func columns(pairs ...string) *SelectSpec {
	s := &SelectSpec{}
	for _, p := range pairs {
		name, e, _ := strings.Cut(p, "=")
		s.Columns = append(s.Columns, ColumnSpec{text(name), text(e)})
	}
	return s
}

func joinStep(uid string, j *JoinSpec) *StepSpec {
	return &StepSpec{UID: text(uid), From: texts("a", "b"), Joins: Joins{Join: j}}
}

func joinSpec(steps ...*StepSpec) *Spec {
	s := &Spec{Sources: []*SourceSpec{source("a"), source("b")}}
	s.Steps = steps
	for _, step := range steps {
		s.Sinks = append(s.Sinks, fileSink("to-"+step.UID.Value, step.UID.Value))
	}
	return s
}

// TestJoinKeepsWhatItsColumnsNeed: the columns, the slots of the key per input and where it comes out.
func TestJoinKeepsWhatItsColumnsNeed(t *testing.T) {
	g := mustCompile(t, joinSpec(joinStep("j", &JoinSpec{On: on("device", "nr=id"), Within: &WithinSpec{AfterMs: 5},
		Select: columns("device=device", "nr=left.nr", "sum=left.v + right.v", "topic=right.$topic")})))
	s := g.Steps[0]
	var names []string
	for _, c := range s.Columns {
		names = append(names, c.Name)
	}
	if got := strings.Join(names, " "); got != "device nr sum topic" || s.Ports != 2 || s.Width != 4 {
		t.Errorf("columns %s, %d ports, width %d", got, s.Ports, s.Width)
	}
	a, b := g.Sources[0], g.Sources[1]
	slot := func(s *Source, name string) int {
		return slices.IndexFunc(s.Columns, func(c Column) bool { return c.Name == name })
	}
	want := [][]int{{slot(a, "device"), slot(a, "nr")}, {slot(b, "device"), slot(b, "id")}}
	if s.Keyed == nil || !slices.EqualFunc(s.Keyed.In, want, slices.Equal) || s.Keyed.Out[0] != nil {
		t.Errorf("keyed %+v, want in %v, and not out: id is no column", s.Keyed, want)
	}
	if !strings.Contains(s.Params, `left ["{device" "nr" "v"] right ["{device" "v" "$topic"]`) {
		t.Errorf("params %s", s.Params)
	}
	shared := mustCompile(t, joinSpec(joinStep("j", &JoinSpec{On: on("device"), Within: &WithinSpec{}, Select: columns("v=left.v", "key=device")}))).Steps[0]
	if !slices.EqualFunc(shared.Keyed.Out, [][]int{{1}, {1}}, slices.Equal) {
		t.Errorf("the key comes out in %v, want slot 1 of both ports", shared.Keyed.Out)
	}
}

// TestLatestJoinGoesByTheLeftTime: whose watermark counts, and that a region is not shared with a step that thinks otherwise.
func TestLatestJoinGoesByTheLeftTime(t *testing.T) {
	spec := joinSpec(joinStep("l", &JoinSpec{On: on("device"), Latest: true, Select: columns("v=left.v")}),
		joinStep("w", &JoinSpec{On: on("device"), Within: &WithinSpec{}, Select: columns("v=left.v")}))
	g := mustCompile(t, spec)
	if l, w := g.Steps[0], g.Steps[1]; !slices.Equal(l.Clockless, []bool{false, true}) || w.Clockless != nil || l.Ports != 1 {
		t.Errorf("clockless inputs %v and %v, %d ports", l.Clockless, w.Clockless, l.Ports)
	}
	if regions := Regions(g, []int{0, 1}); len(regions) != 2 || !slices.Equal(regions[0].Clockless, []bool{false, true}) || regions[1].Clockless != nil {
		t.Errorf("regions %+v", regions)
	}
	spec.Sources[1].Time = nil // a topic of retained messages without a time
	if g, problems, _ := Compile(spec); g != nil || len(problems) != 1 || !strings.Contains(problems[0].Found, "step w joins by event time, the rows of b have none") {
		t.Errorf("problems %v", problems)
	}
}

// TestJoinsArePartOfThePlan: what changes the result changes the hash.
func TestJoinsArePartOfThePlan(t *testing.T) {
	base := func() *JoinSpec {
		return &JoinSpec{On: on("device"), Within: &WithinSpec{AfterMs: 5}, Select: columns("v=left.v")}
	}
	seen := map[[32]byte]string{}
	for name, change := range map[string]func(*StepSpec){
		"as it is":  func(*StepSpec) {},
		"bound":     func(s *StepSpec) { s.Join.Within.AfterMs = 6 },
		"other way": func(s *StepSpec) { s.Join.Within = &WithinSpec{BeforeMs: 5} },
		"type":      func(s *StepSpec) { s.Join.Type = text("left") },
		"key":       func(s *StepSpec) { s.Join.On = on("device=id") },
		"column":    func(s *StepSpec) { s.Join.Select = columns("v=right.v") },
		"latest":    func(s *StepSpec) { s.Join.Within, s.Join.Latest = nil, true },
		"window":    func(s *StepSpec) { s.Join.Within, s.Join.Window = nil, &JoinWindowSpec{SizeMs: 5, SlideMs: 5} },
		"hopping":   func(s *StepSpec) { s.Join.Within, s.Join.Window = nil, &JoinWindowSpec{SizeMs: 5, SlideMs: 1} },
		"session":   func(s *StepSpec) { s.Join.Within, s.Join.Window = nil, &JoinWindowSpec{GapMs: 5} },
		"split":     func(s *StepSpec) { s.Join.Within, s.Join.Window = nil, &JoinWindowSpec{GapMs: 5, Split: true} },
		"ttl":       func(s *StepSpec) { ttl := int64(7); s.TTLNs = &ttl },
		"max_keys":  func(s *StepSpec) { n := 7; s.MaxKeys = &n },
	} {
		s := joinStep("j", base())
		change(s)
		hash := mustCompile(t, joinSpec(s)).Hash
		if other, twice := seen[hash]; twice {
			t.Errorf("%s is the same plan as %s", name, other)
		}
		seen[hash] = name
	}
}

func TestLookupIsPartOfThePlan(t *testing.T) {
	compile := func(data, missing string) [32]byte {
		s := &StepSpec{UID: text("l"), From: texts("a"), Joins: Joins{Lookup: &LookupSpec{File: text("d.csv"), Data: []byte(data), On: on("device=id"), Missing: text(missing)}}}
		return mustCompile(t, joinSpec(s)).Hash
	}
	first := compile("id,name\n1,a\n", "null")
	if compile("id,name\n1,a\n", "null") != first || compile("id,name\n1,b\n", "null") == first || compile("id,name\n1,a\n", "drop") == first {
		t.Error("the plan does not follow the file and what is missing")
	}
}
