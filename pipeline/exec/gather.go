package exec

import (
	"cmp"

	"github.com/weirstream/weir/pipeline"
)

// placed is what decides where a row of a region stands.
type placed struct {
	at  pipeline.At
	tie pipeline.Tie
	of  *pipeline.Ties
}

// compareRows orders rows of two instances as one instance would have made them. The deadline counts in `before` alone: there rows and timers
// interleave by it; in `idle` and `after` a step works through what comes in before its own timers fire.
func compareRows(a, b placed) int {
	if c := cmp.Or(cmp.Compare(a.at.Pos, b.at.Pos), cmp.Compare(a.at.Phase, b.at.Phase)); c != 0 {
		return c
	}
	if a.at.Phase == pipeline.Before {
		if c := cmp.Compare(a.at.Deadline, b.at.Deadline); c != 0 {
			return c
		}
	}
	return pipeline.CompareTies(a.tie, a.of, b.tie, b.of)
}

// tiedList is what one instance made, in its order.
type tiedList interface {
	len() int
	place(i int) placed
}

type tiedRows struct {
	*edge
	of *pipeline.Ties
}

func (l tiedRows) len() int           { return len(l.rows) }
func (l tiedRows) place(i int) placed { return placed{l.rows[i].At, l.ties[i], l.of} }

type tiedDead struct {
	dead []pipeline.DeadRow
	ties []pipeline.Tie
	of   *pipeline.Ties
}

func (l tiedDead) len() int           { return len(l.dead) }
func (l tiedDead) place(i int) placed { return placed{l.dead[i].At, l.ties[i], l.of} }

// merging merges the lists of the instances; it is kept from batch to batch for its memory.
type merging[L tiedList] struct {
	lists []L
	next  []int
	heads []placed
	left  []int // lists that are not at their end
}

// run calls take for every item, in the total order of a single instance.
func (m *merging[L]) run(fault regionFault, take func(list L, i int)) {
	m.next, m.heads, m.left = m.next[:0], m.heads[:0], m.left[:0]
	for n, l := range m.lists {
		m.next, m.heads = append(m.next, 0), append(m.heads, placed{})
		if l.len() > 0 {
			m.left = append(m.left, n)
			m.heads[n] = l.place(0)
		}
	}
	for len(m.left) > 0 {
		at := 0
		for i := 1; i < len(m.left) && !fault.byArrival; i++ {
			a, b := m.heads[m.left[i]], m.heads[m.left[at]]
			if c := compareRows(a, b); fault.tieless && a.at.Compare(b.at) < 0 || !fault.tieless && c < 0 {
				at = i
			}
		}
		n := m.left[at]
		l := m.lists[n]
		take(l, m.next[n])
		if m.next[n]++; m.next[n] < l.len() {
			m.heads[n] = l.place(m.next[n])
			continue
		}
		m.left = append(m.left[:at], m.left[at+1:]...)
	}
}

// gathered is one output of a step in a region as the steps and sinks outside of it read it.
type gathered struct {
	group   *group
	port    int
	edge    edge
	merging merging[tiedRows]
}

func (o *gathered) gather(fault regionFault) {
	o.merging.lists = o.merging.lists[:0]
	for _, s := range o.group.instances {
		o.merging.lists = append(o.merging.lists, tiedRows{&s.outputs[o.port], s.ties})
	}
	clear(o.edge.rows)
	o.edge.rows, o.edge.marks = o.edge.rows[:0], o.group.instances[0].outputs[o.port].marks
	o.merging.run(fault, func(l tiedRows, i int) { o.edge.rows = append(o.edge.rows, l.rows[i]) })
}

// gatherDead appends the dead letters of a step, in the order in which one instance would have refused them.
func (g *group) gatherDead(fault regionFault, into []pipeline.DeadRow) []pipeline.DeadRow {
	g.dead.lists = g.dead.lists[:0]
	for _, s := range g.instances {
		if len(s.out.Dead) > 0 {
			g.dead.lists = append(g.dead.lists, tiedDead{s.out.Dead, s.out.DeadTies(), s.ties})
		}
	}
	if len(g.dead.lists) > 0 {
		g.dead.run(fault, func(l tiedDead, i int) { into = append(into, l.dead[i]) })
	}
	return into
}
