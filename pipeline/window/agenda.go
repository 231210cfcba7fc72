package window

import (
	"bytes"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// timer is what comes next for a key: when, and the start of the window it is about.
type timer struct{ at, start int64 }

// noTimer is that of a key without one.
var noTimer = timer{at: pipeline.NoDeadline}

func (t timer) before(o timer) bool { return t.at < o.at || t.at == o.at && t.start < o.start }

// agenda keeps one timer per key, in the order (at, start, key bytes). A timer that moves back, as a session's does with each row, costs
// nothing until it would be the next: its place in the heap is then a lower bound.
type agenda struct {
	items []item
	free  []int32
	heap  []int32
	byKey map[string]int32
	far   *farAgenda // not nil: all is there
}

type item struct {
	key         []byte
	place       int
	lower, want timer
}

func newAgenda() agenda { return agenda{byKey: map[string]int32{}} }

// set gives a key its timer; was is the one before, or none at all.
func (a *agenda) set(key []byte, was, t timer) {
	if state.LargeBuilt && a.far != nil {
		a.far.set(key, was, t)
		return
	}
	id, ok := a.byKey[string(key)]
	if !ok {
		a.add(key, t)
		return
	}
	n := &a.items[id]
	n.want = t
	if t.before(n.lower) {
		n.lower = t
		a.up(n.place)
	}
}

func (a *agenda) add(key []byte, t timer) {
	n := item{key: bytes.Clone(key), place: len(a.heap), lower: t, want: t}
	id := int32(len(a.items))
	if last := len(a.free) - 1; last >= 0 {
		id = a.free[last]
		a.free = a.free[:last]
		a.items[id] = n
	} else {
		a.items = append(a.items, n)
	}
	a.byKey[string(n.key)] = id
	a.heap = append(a.heap, id)
	a.up(n.place)
}

// remove forgets a key.
func (a *agenda) remove(key []byte) {
	if state.LargeBuilt && a.far != nil {
		a.far.remove(key)
		return
	}
	id, ok := a.byKey[string(key)]
	if !ok {
		return
	}
	place, last := a.items[id].place, len(a.heap)-1
	a.swap(place, last)
	a.heap = a.heap[:last]
	if place < last {
		a.up(place)
		a.down(place)
	}
	delete(a.byKey, string(key))
	a.items[id] = item{}
	a.free = append(a.free, id)
}

// top gives the next timer and its key; pipeline.NoDeadline when there is none. The key is valid until the next change.
func (a *agenda) top() (timer, []byte) {
	if state.LargeBuilt && a.far != nil {
		return a.far.first, a.far.key
	}
	for len(a.heap) > 0 {
		n := &a.items[a.heap[0]]
		if n.lower == n.want {
			return n.want, n.key
		}
		n.lower = n.want
		a.down(0)
	}
	return noTimer, nil
}

func (a *agenda) less(i, j int) bool {
	x, y := &a.items[a.heap[i]], &a.items[a.heap[j]]
	if x.lower != y.lower {
		return x.lower.before(y.lower)
	}
	return bytes.Compare(x.key, y.key) < 0
}

func (a *agenda) swap(i, j int) {
	a.heap[i], a.heap[j] = a.heap[j], a.heap[i]
	a.items[a.heap[i]].place, a.items[a.heap[j]].place = i, j
}

func (a *agenda) up(i int) {
	for i > 0 && a.less(i, (i-1)/2) {
		a.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (a *agenda) down(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(a.heap); child++ {
			if a.less(child, least) {
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
