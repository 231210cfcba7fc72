package state

import "bytes"

// Queue is an Index whose first key is known: what is due next, of an operator with more timers than the memory holds. Of its keys one is in memory. It is in no
// checkpoint: Restored makes it again.
//
// What lies before the first key is never looked at: it is full of what was deleted. When the first key is removed, the next one is
// sought when it is asked for.
type Queue struct {
	index *Index
	first []byte // the first key; with stale no key lies before it
	some  bool   // there is one, or with stale there may be
	stale bool
}

// NewQueue makes an empty queue beside a large table; nil for a table in memory, whose operator keeps a heap.
func (t *Table) NewQueue() *Queue {
	x := t.NewIndex()
	if x == nil {
		return nil
	}
	return &Queue{index: x}
}

// Put adds a key. Adding it again changes nothing.
func (q *Queue) Put(key []byte) {
	q.index.Set(key, nil)
	if !q.some || bytes.Compare(key, q.first) <= 0 {
		q.first, q.some, q.stale = append(q.first[:0], key...), true, false
	}
}

// Remove takes a key out, if it is there.
func (q *Queue) Remove(key []byte) {
	q.index.Delete(key)
	if q.some && bytes.Equal(key, q.first) {
		q.stale = true
	}
}

// First gives the first key, nil when there is none. It is valid until the next change.
func (q *Queue) First() []byte {
	if q.stale {
		from := bytes.Clone(q.first)
		q.some, q.stale = false, false
		q.index.Walk(nil, from, func(key []byte) bool {
			q.first, q.some = append(q.first[:0], key...), true
			return false
		})
	}
	if !q.some {
		return nil
	}
	return q.first
}

// Drain removes the keys below to in their order, and calls f for each. f may put others, also such as lie below to, and removes none. key is valid
// during the call.
func (q *Queue) Drain(to []byte, f func(key []byte)) {
	for {
		first := q.First()
		if first == nil || bytes.Compare(first, to) >= 0 {
			return
		}
		from, rest := bytes.Clone(first), []byte(nil)
		q.some = false // from here on first is that of what f puts
		q.index.Walk(nil, from, func(key []byte) bool {
			if bytes.Compare(key, to) >= 0 || q.some && bytes.Compare(q.first, key) <= 0 {
				rest = bytes.Clone(key)
				return false
			}
			q.index.Delete(key)
			f(key)
			return true
		})
		if rest != nil && (!q.some || bytes.Compare(rest, q.first) < 0) {
			q.first, q.some, q.stale = rest, true, false
		}
	}
}
