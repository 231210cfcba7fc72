package outbox

import "strings"

// Reasons of gaps. What upstream will never take is "rejected: " and the upstream's words (uplink).
const (
	reasonExpired  = "expired: older than the sink's ttl"
	reasonFull     = "dropped: the queue was full"
	reasonRejected = "rejected"
)

// cause is why a result became a gap.
type cause int

const (
	causeRejected cause = iota
	causeExpired
	causeFull
	causesN
)

// causes counts sequences by cause.
type causes [causesN]uint64

// causeOf reads a gap's reason; ok is false for a cause that is not counted apart.
func causeOf(reason string) (c cause, ok bool) {
	switch {
	case strings.HasPrefix(reason, reasonRejected):
		return causeRejected, true
	case reason == reasonExpired:
		return causeExpired, true
	case reason == reasonFull:
		return causeFull, true
	}
	return 0, false
}

// count adds the sequences of [first, last] that lie in gaps, which are disjoint, and tells how many there are.
func (n *causes) count(gaps []gap, first, last uint64) (sum uint64) {
	for i := range gaps {
		lo, hi := max(first, gaps[i].first), min(last, gaps[i].last)
		if lo > hi {
			continue
		}
		sum += hi - lo + 1
		if c, ok := causeOf(gaps[i].reason); ok {
			n[c] += hi - lo + 1
		}
	}
	return sum
}

// uncount takes n sequences that had left the queue out of the ledger: a generation that begins before them makes others under their numbers, and a sum over
// both would never match what was emitted. What was told as dropped stays so while there is enough that was not.
func (q *queue) uncount(n uint64) {
	if q.countsVoid {
		return
	}
	data := min(n, q.confirmedN)
	q.confirmedN -= data
	gaps := min(n-data, q.droppedN)
	q.droppedN -= gaps
	for c := range q.causes {
		less := min(gaps, q.causes[c])
		q.causes[c] -= less
		gaps -= less
	}
}
