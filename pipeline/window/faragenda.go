package window

import (
	"bytes"
	"encoding/binary"

	"github.com/weirstream/weir/pipeline/state"
)

// farAgenda is an agenda beside a large table. A key's timer follows from its entry there; what is kept of it is a bound in a queue: each key with
// a timer has a member (at, start, key) at or before it. So a timer that moves back, as a session's does with each row, writes nothing. A member that comes
// to be the first is looked up: when the key's timer lies behind, it is put there. Members of one key that fell before one another meet then.
//
// The first timer is known at all times but within a call of the operator, which ends with settle: so nobody reads the table between calls.
type farAgenda struct {
	queue  *state.Queue
	look   func(key []byte) timer // that of a key, by the table; noTimer: none
	first  timer
	key    []byte
	stale  bool // first may have moved back
	member []byte
}

// timerBytes stand before the key in a member: at and start.
const timerBytes = 2 * startBytes

func newFarAgenda(q *state.Queue, look func(key []byte) timer) *farAgenda {
	return &farAgenda{queue: q, look: look, first: noTimer}
}

func (a *farAgenda) memberOf(key []byte, t timer) []byte {
	a.member = append(appendStart(appendStart(a.member[:0], t.at), t.start), key...)
	return a.member
}

// set gives a key its timer; was is the one before.
func (a *farAgenda) set(key []byte, was, t timer) {
	if was == noTimer || t.before(was) {
		a.queue.Add(a.memberOf(key, t))
	}
	switch same := bytes.Equal(key, a.key); {
	case a.first == noTimer || t.before(a.first) || t == a.first && bytes.Compare(key, a.key) < 0:
		a.first, a.key = t, append(a.key[:0], key...)
	case same && t != a.first:
		a.stale = true
	}
}

// remove forgets a key, whose entry is gone.
func (a *farAgenda) remove(key []byte) { a.stale = a.stale || bytes.Equal(key, a.key) }

// settle finds the first timer. again: the first one may be gone by its TTL.
func (a *farAgenda) settle(again bool) {
	if !a.stale && !again {
		return
	}
	a.stale = false
	for {
		m := a.queue.First()
		if m == nil {
			a.first, a.key = noTimer, a.key[:0]
			return
		}
		t := timer{at: startOf(m), start: startOf(m[startBytes:])}
		a.key = append(a.key[:0], m[timerBytes:]...)
		if a.first = a.look(a.key); a.first == t {
			return
		}
		a.queue.Remove(m)
		if a.first != noTimer {
			a.queue.Add(a.memberOf(a.key, a.first))
		}
	}
}

// startOf reads what appendStart wrote.
func startOf(b []byte) int64 { return int64(binary.BigEndian.Uint64(b) ^ 1<<63) }
