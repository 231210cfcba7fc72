package ops

import (
	"cmp"
	"container/heap"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// deadlines is the index of waiting elapsed-time timers, at most one per key, in the order (deadline, key bytes). It is
// exact, never holding a cancelled timer: the agent journals a tick for the earliest.
type deadlines struct {
	heap  deadlineHeap
	byKey map[string]*deadline
	far   *farDeadlines // not nil: they are there
}

type deadline struct {
	at    int64
	key   string
	place int
}

func newDeadlines() deadlines { return deadlines{byKey: map[string]*deadline{}} }

func (d *deadlines) set(key []byte, at int64) {
	if state.LargeBuilt && d.far != nil {
		d.far.set(key, at)
		return
	}
	e := &deadline{at: at, key: string(key)}
	d.byKey[e.key] = e
	heap.Push(&d.heap, e)
}

// move is set for a key that may wait already: its timer moves. It allocates for a new key only.
func (d *deadlines) move(key []byte, at int64) {
	if state.LargeBuilt && d.far != nil {
		d.far.cancel(key)
		d.far.set(key, at)
		return
	}
	e, ok := d.byKey[string(key)]
	if !ok {
		d.set(key, at)
		return
	}
	e.at = at
	heap.Fix(&d.heap, e.place)
}

func (d *deadlines) cancel(key []byte) {
	if state.LargeBuilt && d.far != nil {
		d.far.cancel(key)
		return
	}
	if e, ok := d.byKey[string(key)]; ok {
		delete(d.byKey, e.key)
		heap.Remove(&d.heap, e.place)
	}
}

// earliest is pipeline.NoDeadline when nothing waits.
func (d *deadlines) earliest() int64 {
	if state.LargeBuilt && d.far != nil {
		return d.far.earliest()
	}
	if len(d.heap) == 0 {
		return pipeline.NoDeadline
	}
	return d.heap[0].at
}

// take removes the earliest timer and gives its key.
func (d *deadlines) take() (key string, at int64) {
	if state.LargeBuilt && d.far != nil {
		return d.far.take()
	}
	e := heap.Pop(&d.heap).(*deadline)
	delete(d.byKey, e.key)
	return e.key, e.at
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int { return len(h) }
func (h deadlineHeap) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].at, h[j].at), cmp.Compare(h[i].key, h[j].key)) < 0
}
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}
func (h *deadlineHeap) Push(x any) {
	e := x.(*deadline)
	e.place = len(*h)
	*h = append(*h, e)
}
func (h *deadlineHeap) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return e
}
