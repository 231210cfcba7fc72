package plan

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func from(steps ...int) (refs []Ref) {
	for _, s := range steps {
		refs = append(refs, Ref{Step: s})
	}
	return refs
}

var wholeSource = []Ref{{Step: -1}}

func keyedOn(in []Ref, out []int, slots ...int) *Step {
	k := &Keyed{Out: [][]int{out}}
	for range in {
		k.In = append(k.In, slots)
	}
	return &Step{Inputs: in, Ports: 1, Keyed: k}
}

func stateless(in []Ref, carries ...int) *Step {
	return &Step{Inputs: in, Ports: 1, Stateless: true, Carries: [][]int{carries}}
}

func alone(in []Ref) *Step { return &Step{Inputs: in, Ports: 1} }

func TestRegions(t *testing.T) {
	for name, c := range map[string]struct {
		steps []*Step
		sinks []int // steps that a sink reads
		want  []string
	}{
		"a chain with the same key, and what stands in front of it": {
			steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1), stateless(from(1), 0), keyedOn(from(2), []int{0}, 0)},
			want:  []string{"[0 1 2 3] by [[1]]"},
		},
		"what stands in front is needed elsewhere": {
			steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1), alone(from(0))},
			want:  []string{"[1] by [[1]]"},
		},
		"what stands in front has a sink": {
			steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1)}, sinks: []int{0},
			want: []string{"[1] by [[1]]"},
		},
		"a select in front moves the key": {
			steps: []*Step{stateless(wholeSource, 2, -1), keyedOn(from(0), []int{0}, 0)},
			want:  []string{"[0 1] by [[2]]"},
		},
		"a select in front makes the key": {
			steps: []*Step{stateless(wholeSource, 2, -1), keyedOn(from(0), []int{0}, 1)},
			want:  []string{"[1] by [[1]]"},
		},
		"two steps over one input": {
			steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1), keyedOn(from(0), []int{1}, 1), stateless(from(2), 0, 1)},
			want:  []string{"[0 1 2 3] by [[1]]"},
		},
		"two keys over one input": {
			steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1), keyedOn(from(0), []int{1}, 0)},
			want:  []string{"[1] by [[1]]", "[2] by [[0]]"},
		},
		"another key behind the first": {
			steps: []*Step{keyedOn(wholeSource, []int{0}, 1), keyedOn(from(0), []int{0}, 1)},
			want:  []string{"[0] by [[1]]", "[1] by [[1]]"},
		},
		"the key is lost on the way": {
			steps: []*Step{keyedOn(wholeSource, []int{0}, 0), stateless(from(0), -1, 1), keyedOn(from(1), []int{0}, 0)},
			want:  []string{"[0 1] by [[0]]", "[2] by [[0]]"},
		},
		"two inputs": {
			steps: []*Step{keyedOn(wholeSource, []int{0}, 0), keyedOn(from(0, 0), []int{0}, 0), keyedOn(from(1), []int{0}, 0)},
			want:  []string{"[0] by [[0]]", "[1 2] by [[0] [0]]"},
		},
		"no key": {steps: []*Step{stateless(wholeSource, 0), alone(from(0))}},
	} {
		g := &Graph{Steps: c.steps}
		var all []int
		for i := range c.steps {
			all = append(all, i)
		}
		for _, i := range c.sinks {
			g.Sinks = append(g.Sinks, &Sink{From: Ref{Step: i}})
		}
		var got []string
		for _, r := range Regions(g, all) {
			got = append(got, fmt.Sprint(r.Steps, " by ", r.Key))
		}
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

// TestRegionsStayInTheirTask: what another task makes is dealt out anew.
func TestRegionsStayInTheirTask(t *testing.T) {
	g := &Graph{Steps: []*Step{stateless(wholeSource, 0, 1), keyedOn(from(0), []int{0}, 1), keyedOn(from(1), []int{0}, 0)}}
	if r := Regions(g, []int{1, 2}); len(r) != 1 || len(r[0].Steps) != 2 || r[0].Inputs[0] != (Ref{Step: 0}) {
		t.Errorf("got %+v", r)
	}
	if r := Regions(g, []int{2}); len(r) != 1 || r[0].Inputs[0] != (Ref{Step: 1}) {
		t.Errorf("got %+v", r)
	}
}
