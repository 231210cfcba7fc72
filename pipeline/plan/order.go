package plan

import "strings"

// order gives the steps in plan order: topological, ties by their place in the config. A cycle is noted; nil then.
func (c *compiler) order() []int {
	n := len(c.spec.Steps)
	c.rank = make([]int, n)
	done := make([]bool, n)
	order := []int{}
	for len(order) < n {
		next := -1
		for i := range n {
			if !done[i] && c.ready(i, done) {
				next = i
				break
			}
		}
		if next < 0 {
			c.cycle(done)
			return nil
		}
		done[next] = true
		c.rank[next] = len(order)
		order = append(order, next)
	}
	return order
}

func (c *compiler) ready(i int, done []bool) bool {
	for _, t := range c.stepInputs[i] {
		if t.step >= 0 && !done[t.step] {
			return false
		}
	}
	return true
}

// cycle notes one cycle among the steps that are left: each of them has an input that is left, so that walking against
// the flow must come back.
func (c *compiler) cycle(done []bool) {
	at := 0
	for done[at] {
		at++
	}
	var path []int
	seen := map[int]int{}
	for {
		if first, back := seen[at]; back {
			path = path[first:]
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		for _, t := range c.stepInputs[at] {
			if t.step >= 0 && !done[t.step] {
				at = t.step
				break
			}
		}
	}
	// path walks against the flow; it is told with it, from the step that stands first in the config.
	first := 0
	for i := range path {
		if path[i] < path[first] {
			first = i
		}
	}
	names := []string{}
	for i := range len(path) + 1 {
		names = append(names, c.spec.Steps[path[(first-i+2*len(path))%len(path)]].UID.Value)
	}
	step := c.spec.Steps[path[first]]
	where := step.Pos
	for k, t := range c.stepInputs[path[first]] {
		if t.step == path[(first+1)%len(path)] && k < len(step.From) {
			where = step.From[k].Pos
		}
	}
	c.problems.Add(where, "", "data flows from sources to sinks", "the steps feed each other in a cycle: %s", strings.Join(names, " → "))
}

// reach notes the steps from which no sink gets anything.
func (c *compiler) reach() {
	if len(c.spec.Sinks) == 0 {
		return // that is the problem, and said
	}
	reached := make([]bool, len(c.spec.Steps))
	var mark func(t target)
	mark = func(t target) {
		if t.step < 0 || reached[t.step] {
			return
		}
		reached[t.step] = true
		for _, in := range c.stepInputs[t.step] {
			mark(in)
		}
	}
	for _, t := range c.sinkInput {
		if t != nil {
			mark(*t)
		}
	}
	for i, s := range c.spec.Steps {
		if reached[i] || s.UID.Value == "" || c.unresolved(i) || c.shadowed(i) {
			continue
		}
		at := s.UID.Pos
		c.problems.Add(at, "", "every step leads to a sink: name it in the from of a sink or of a step that one reads", "step %s is unreachable: no sink gets anything from it", s.UID)
	}
}

// shadowed tells whether the uid of step i means something else: a source or an earlier step.
func (c *compiler) shadowed(i int) bool {
	uid := c.spec.Steps[i].UID.Value
	for _, s := range c.spec.Sources {
		if s.Name.Value == uid {
			return true
		}
	}
	for _, s := range c.spec.Steps[:i] {
		if s.UID.Value == uid {
			return true
		}
	}
	return false
}

// unresolved tells whether a from that names nothing may have meant step i: then that problem alone is told.
func (c *compiler) unresolved(i int) bool {
	for k, s := range c.spec.Sinks {
		if c.sinkInput[k] == nil && s.From.Value != "" {
			return true
		}
	}
	for k, s := range c.spec.Steps {
		if k != i && len(c.stepInputs[k]) < len(s.From) {
			return true
		}
	}
	return false
}
