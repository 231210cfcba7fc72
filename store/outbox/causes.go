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
