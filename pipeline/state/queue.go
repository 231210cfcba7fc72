package state

import (
	"bytes"
	"slices"
)

// Queue is an ordered set of byte strings in the Backing whose first members are in memory: timers of an operator whose keys do not fit there. A
// member is written once and removed once; asking for the first one costs a walk of the store only when as many have been removed as the front
// holds. Like an Index it is in no checkpoint, belongs to the task, and panics with *BackingError when the store fails.
type Queue struct {
	index *Index
	front [][]byte // rising
	bytes int      // of the front
	most  int      // bytes of the front, about
	whole bool     // nothing lies behind the front
	end   []byte   // else: the front has everything up to this
}

const (
	// queueBytesMax and queueMembersMax bound the front of one queue.
	queueBytesMax   = 16 << 10
	queueMembersMax = 256
	// queueBytesMin is a front for a table that has next to no memory.
	queueBytesMin = 64
)

// NewQueue makes an empty queue beside a large table; nil for a table in memory.
func (t *Table) NewQueue() *Queue {
	x := t.NewIndex()
	if x == nil {
		return nil
	}
	most := min(max(t.large.pool.share()/16, queueBytesMin), queueBytesMax)
	return &Queue{index: x, most: int(most), whole: true}
}

// Add puts a member in; one that is there already stays.
func (q *Queue) Add(m []byte) {
	q.index.Set(m, nil)
	if !q.whole && bytes.Compare(m, q.end) > 0 {
		return
	}
	i, found := slices.BinarySearchFunc(q.front, m, bytes.Compare)
	if found {
		return
	}
	q.front = slices.Insert(q.front, i, bytes.Clone(m))
	q.bytes += len(m)
	if q.bytes > 2*q.most || len(q.front) > 2*queueMembersMax {
		q.cut()
	}
}

// cut leaves the last members of the front to the store.
func (q *Queue) cut() {
	for last := len(q.front) - 1; last > 0 && (q.bytes > q.most || last >= queueMembersMax); last-- {
		q.bytes -= len(q.front[last])
		q.front[last] = nil
		q.front = q.front[:last]
	}
	q.whole, q.end = false, append(q.end[:0], q.front[len(q.front)-1]...)
}

// Remove takes a member out, if it is there.
func (q *Queue) Remove(m []byte) {
	if i, found := slices.BinarySearchFunc(q.front, m, bytes.Compare); found {
		m = q.front[i] // m may be a view of it
		q.bytes -= len(m)
		q.front = slices.Delete(q.front, i, i+1)
	}
	q.index.Delete(m)
}

// First gives the lowest member, valid until the next call that changes the queue; nil: there is none.
func (q *Queue) First() []byte {
	if len(q.front) == 0 {
		if q.whole {
			return nil
		}
		q.refill()
		if len(q.front) == 0 {
			return nil
		}
	}
	return q.front[0]
}

// refill reads on behind what the front had. Nothing lies before but what was deleted, which is never looked at again.
func (q *Queue) refill() {
	q.whole = true
	q.index.Walk(nil, q.end, func(m []byte) bool {
		q.front = append(q.front, bytes.Clone(m))
		q.bytes += len(m)
		q.whole = q.bytes < q.most && len(q.front) < queueMembersMax
		return q.whole
	})
	if !q.whole {
		q.end = append(q.end[:0], q.front[len(q.front)-1]...)
	}
}
