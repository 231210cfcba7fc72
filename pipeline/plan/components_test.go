package plan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func named(s string) Text { return Text{Value: s} }

func TestComponents(t *testing.T) {
	step := func(uid string, from ...string) *StepSpec {
		s := &StepSpec{UID: named(uid)}
		for _, f := range from {
			s.From = append(s.From, named(f))
		}
		return s
	}
	sink := func(uid, from string) *SinkSpec { return &SinkSpec{UID: named(uid), From: named(from)} }
	for name, c := range map[string]struct {
		steps []*StepSpec
		sinks []*SinkSpec
		want  []string
	}{
		"one": {[]*StepSpec{step("a", "s")}, []*SinkSpec{sink("x", "a"), sink("w", "a")}, []string{"p/w [a] [x w]"}},
		"a shared source joins nothing": {
			[]*StepSpec{step("a", "s"), step("b", "s"), step("c", "a")}, []*SinkSpec{sink("z", "b"), sink("y", "c"), sink("x", "s")},
			[]string{"p/x [] [x]", "p/y [a c] [y]", "p/z [b] [z]"},
		},
		"a union joins": {
			[]*StepSpec{step("a", "s"), step("b", "r"), step("u", "a", "b")}, []*SinkSpec{sink("x", "u"), sink("y", "a")}, []string{"p/x [a b u] [x y]"},
		},
		"steps without a sink": {
			[]*StepSpec{step("a", "s"), step("lost", "s"), step("b", "r")}, []*SinkSpec{sink("x", "b"), sink("y", "a")},
			[]string{"p/x [lost b] [x]", "p/y [a] [y]"},
		},
	} {
		spec := &Spec{Name: named("p"), Sources: []*SourceSpec{{Name: named("s")}, {Name: named("r")}}, Steps: c.steps, Sinks: c.sinks}
		var got []string
		for _, p := range Components(spec) {
			steps, sinks := []string{}, []string{}
			for _, s := range p.Steps {
				steps = append(steps, s.UID.Value)
			}
			for _, s := range p.Sinks {
				sinks = append(sinks, s.UID.Value)
			}
			got = append(got, fmt.Sprint(p.Name.Value, " ", steps, " ", sinks))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
