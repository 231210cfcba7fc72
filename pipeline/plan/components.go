package plan

import (
	"cmp"
	"slices"
)

// Components splits a pipeline that compiles into the parts of its graph that share no step: each has some of the sinks and every step that
// leads to one of them. A source joins nothing: each part reads the journal for itself. The results of a sink are the same in its part as in
// the whole, but for messages that are bad in a field which another part alone uses: each part decodes what it uses. A part is named PIPELINE/SINK after the smallest uid among its sinks, which other parts do not change; parts come in the order of
// these names. Steps that lead to no sink go with the first part.
func Components(spec *Spec) (parts []*Spec) {
	c := &compiler{spec: spec, origins: make([]*origin, len(spec.Sources)), out: map[[2]int]*edge{}}
	c.resolve()
	of := unions{} // steps, then sinks
	for i := range len(spec.Steps) + len(spec.Sinks) {
		of = append(of, i)
	}
	for i, inputs := range c.stepInputs {
		for _, t := range inputs {
			if t.step >= 0 {
				of.join(i, t.step)
			}
		}
	}
	for i, t := range c.sinkInput {
		if t != nil && t.step >= 0 {
			of.join(len(spec.Steps)+i, t.step)
		}
	}
	found := map[int]*Spec{}
	for i, s := range spec.Sinks {
		root := of.root(len(spec.Steps) + i)
		p := found[root]
		if p == nil {
			p = &Spec{}
			*p = *spec
			p.Steps, p.Sinks, p.Name.Value = nil, nil, ""
			found[root] = p
			parts = append(parts, p)
		}
		p.Sinks = append(p.Sinks, s)
		if p.Name.Value == "" || s.UID.Value < p.Name.Value {
			p.Name.Value = s.UID.Value
		}
	}
	slices.SortFunc(parts, func(a, b *Spec) int { return cmp.Compare(a.Name.Value, b.Name.Value) })
	for _, p := range parts {
		p.Name.Value = spec.Name.Value + PartSeparator + p.Name.Value
	}
	for i, s := range spec.Steps {
		p := found[of.root(i)]
		if p == nil {
			p = parts[0]
		}
		p.Steps = append(p.Steps, s)
	}
	return parts
}

// PartSeparator stands between the name of a pipeline and that of a part. No name holds it.
const PartSeparator = "/"

// unions are disjoint sets of numbers: each element names another of its set, the root itself.
type unions []int

func (u unions) root(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u unions) join(a, b int) { u[u.root(a)] = u.root(b) }
