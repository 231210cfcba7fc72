package state

import "bytes"

// Drain takes the members below to out, in their order, and calls f for each. f may change the queue; what it adds below to comes in its turn. m is valid during
// the call.
func (q *Queue) Drain(to []byte, f func(m []byte)) {
	var m []byte
	for first := q.First(); first != nil && bytes.Compare(first, to) < 0; first = q.First() {
		m = append(m[:0], first...)
		q.Remove(m)
		f(m)
	}
}
