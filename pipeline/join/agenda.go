package join

import (
	"bytes"
	"cmp"
)

// agenda is the heap of groups in the order of (due, start of the window, key bytes): that of the total order for timers.
type agenda []*group

func (a agenda) before(i, j int) bool {
	return cmp.Or(cmp.Compare(a[i].due, a[j].due), cmp.Compare(a[i].start, a[j].start), bytes.Compare(a[i].key, a[j].key)) < 0
}

func (a agenda) swap(i, j int) {
	a[i], a[j] = a[j], a[i]
	a[i].place, a[j].place = i, j
}

func (a *agenda) push(g *group) {
	g.place = len(*a)
	*a = append(*a, g)
	a.up(g.place)
}

// fix puts a group to its place after its due changed.
func (a *agenda) fix(g *group) {
	a.up(g.place)
	a.down(g.place)
}

func (a *agenda) remove(g *group) {
	i, last := g.place, len(*a)-1
	a.swap(i, last)
	(*a)[last] = nil
	*a = (*a)[:last]
	if i < last {
		a.fix((*a)[i])
	}
}

func (a agenda) up(i int) {
	for i > 0 && a.before(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a agenda) down(i int) {
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(a) && a.before(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		a.swap(i, least)
		i = least
	}
}
