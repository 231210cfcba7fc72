package plan

import (
	"slices"
	"sort"
)

// Keyed says that rows and state of different keys never meet in a step: it may run in instances that own the keys among them
// (pipeline/DESIGN.md, "Keyed regions"). A step that says so keeps to this:
//   - what it emits for a row or a timer depends on rows of the same key alone, and on marks and ticks;
//   - each timer names itself with Out.SetTimer before it emits, in the order (deadline, start, key bytes), and makes no new entry;
//   - a row makes one new entry at most in each table that has MaxKeys.
type Keyed struct {
	// In are the slots of the key's parts, per input.
	In [][]int
	// Out are the slots in which the parts come out, per port; nil: they do not, or not all.
	Out [][]int
	// StateKey gives the bytes of a row's key (AppendKey of its parts) within a key of one of the step's tables.
	StateKey func(table string, key []byte) []byte
}

// stateKeyWhole is for tables whose keys are the rows' keys.
func stateKeyWhole(_ string, key []byte) []byte { return key }

// stateKeyBehind is for tables whose keys are the rows' keys behind n bytes of something else.
func stateKeyBehind(n int) func(string, []byte) []byte {
	return func(_ string, key []byte) []byte { return key[n:] }
}

// keyedBy notes that a step with one input is divided by the key in these slots; without a key there is nothing to divide.
func (b *built) keyedBy(in []int, stateKey func(string, []byte) []byte, out ...[]int) {
	if len(in) > 0 {
		b.keyed = &Keyed{In: [][]int{in}, Out: out, StateKey: stateKey}
	}
}

// carries tells, per port, where the slots of the output come from.
func (b *built) carries() [][]int {
	all := make([][]int, len(b.out))
	for port := range b.out {
		switch {
		case len(b.in) == 1 && b.out[port].scope == b.in[0].scope:
			for slot := range b.in[0].scope.width() {
				all[port] = append(all[port], slot)
			}
		case port == 0:
			all[port] = b.carry
			if e := extendedOf(b.out[0].scope); e != nil {
				all[port] = e.mapping
			}
		}
	}
	return all
}

// Region is a set of steps that run in instances by key, over one input: that of its first step.
type Region struct {
	Steps  []int   // in plan order
	Inputs []Ref   // several are merged
	Key    [][]int // per input: the slots of the key
	// Clockless is that of its steps: inputs whose watermarks play no part.
	Clockless []bool
}

// zoning finds the regions of one task.
type zoning struct {
	g       *Graph
	task    map[int]bool     // steps of the task
	of      map[int]int      // step -> region
	key     map[[2]int][]int // step and port in a region -> slots of its key; nil: not all there
	regions []Region
}

// Regions finds the keyed regions among the steps of one task.
func Regions(g *Graph, steps []int) []Region {
	z := &zoning{g: g, task: map[int]bool{}, of: map[int]int{}, key: map[[2]int][]int{}}
	for _, i := range steps {
		z.task[i] = true
	}
	for _, i := range steps {
		z.place(i)
	}
	for i := range z.regions {
		slices.Sort(z.regions[i].Steps)
	}
	sort.Slice(z.regions, func(i, j int) bool { return z.regions[i].Steps[0] < z.regions[j].Steps[0] })
	return z.regions
}

// place puts a step into the region of its input, or into one over its input, or into none.
func (z *zoning) place(i int) {
	s := z.g.Steps[i]
	in := s.Inputs[0]
	r, inside := z.of[in.Step]
	switch {
	case inside && len(s.Inputs) == 1 && (s.Stateless || s.Keyed != nil && slices.Equal(z.key[[2]int{in.Step, in.Port}], s.Keyed.In[0])):
		z.join(r, i)
	case s.Keyed != nil:
		z.join(z.over(s.Inputs, s.Keyed.In, s.Clockless), i)
	}
}

// over gives the region over these inputs by this key, a new one when there is none.
func (z *zoning) over(inputs []Ref, key [][]int, clockless []bool) int {
	for r, have := range z.regions {
		if slices.Equal(have.Inputs, inputs) && slices.EqualFunc(have.Key, key, slices.Equal) && slices.Equal(have.Clockless, clockless) {
			return r
		}
	}
	z.regions = append(z.regions, Region{Inputs: inputs, Key: key, Clockless: clockless})
	r := len(z.regions) - 1
	if len(inputs) == 1 {
		z.widen(r)
	}
	return r
}

// widen takes stateless steps in front of a region into it, as long as nobody else needs their rows.
func (z *zoning) widen(r int) {
	var front []int
	for {
		ref, key := z.regions[r].Inputs[0], z.regions[r].Key[0]
		if ref.Step < 0 || !z.task[ref.Step] || !z.g.Steps[ref.Step].Stateless || len(z.g.Steps[ref.Step].Inputs) != 1 {
			break
		}
		if _, taken := z.of[ref.Step]; taken || !z.alone(ref, key, front) {
			break
		}
		before := carryBack(z.g.Steps[ref.Step].Carries[ref.Port], key)
		if before == nil {
			break
		}
		front = append(front, ref.Step)
		z.regions[r].Inputs, z.regions[r].Key = z.g.Steps[ref.Step].Inputs, [][]int{before}
	}
	slices.Reverse(front)
	for _, i := range front {
		z.join(r, i)
	}
}

// alone tells whether all that read a step's output are steps of the region to be, or keyed like it.
func (z *zoning) alone(ref Ref, key []int, front []int) bool {
	for i, s := range z.g.Steps {
		for _, in := range s.Inputs {
			if in.Step != ref.Step || slices.Contains(front, i) {
				continue
			}
			if in != ref || len(s.Inputs) != 1 || s.Keyed == nil || !slices.Equal(s.Keyed.In[0], key) || !z.task[i] {
				return false
			}
		}
	}
	for _, s := range z.g.Sinks {
		if s.From.Step == ref.Step && s.From.Step >= 0 {
			return false
		}
	}
	return true
}

func (z *zoning) join(r, i int) {
	s := z.g.Steps[i]
	z.of[i] = r
	z.regions[r].Steps = append(z.regions[r].Steps, i)
	in := z.key[[2]int{s.Inputs[0].Step, s.Inputs[0].Port}]
	if len(s.Inputs) == 1 && s.Inputs[0] == z.regions[r].Inputs[0] {
		in = z.regions[r].Key[0]
	}
	for port := range s.Ports {
		switch {
		case s.Keyed != nil && port < len(s.Keyed.Out):
			z.key[[2]int{i, port}] = s.Keyed.Out[port]
		case s.Keyed == nil && in != nil && port < len(s.Carries):
			z.key[[2]int{i, port}] = carryOn(s.Carries[port], in)
		}
	}
}

// carryBack gives the input slots of output slots; nil when one comes from nowhere.
func carryBack(carry, slots []int) []int {
	var back []int
	for _, s := range slots {
		if s >= len(carry) || carry[s] < 0 {
			return nil
		}
		back = append(back, carry[s])
	}
	return back
}

// carryOn gives the output slots that input slots come out in; nil when one is lost.
func carryOn(carry, slots []int) []int {
	var on []int
	for _, s := range slots {
		at := slices.Index(carry, s)
		if at < 0 {
			return nil
		}
		on = append(on, at)
	}
	return on
}
