package state

import (
	"encoding/binary"
	"math"
)

// Of each record with a TTL the Backing has an expiry at or before its stamp: it is written when the record is made, not whenever it
// is written again. The sweep, in the order of stamps, deletes what has expired and writes a later expiry for what was written since. The next
// ones are in memory (Queue), so that asking each time the clock moves costs a look at each entry once per TTL, and a walk of the store for many.

// reclaimLarge expiries are looked at by a mutating call while any is due.
const reclaimLarge = 64

func (l *large) overdue() bool {
	return l.t.layout.ttl && min(l.due, l.owed) <= l.now-l.t.spec.TTL
}

func (l *large) setNow(elapsed int64) {
	l.now = max(l.now, elapsed)
	l.t.now = l.now // for Limit
	l.settle()
	if l.overdue() {
		l.reclaim(reclaimLarge)
	}
}

// len counts what has not expired: O(1) when nothing became due since the last call, else in proportion to what did.
func (l *large) len() int {
	l.settle()
	l.reclaimAll()
	return l.live
}

func (l *large) reclaimAll() {
	for l.overdue() {
		l.reclaim(changedMax)
		if len(l.changed) >= changedMax {
			l.flush()
		}
	}
}

// expireAt writes an expiry.
func (l *large) expireAt(place []byte, stamp int64) {
	l.key = append(appendStamp(l.key[:0], stamp), place...)
	l.expiries.Add(l.key)
	l.due = min(l.due, stamp)
}

func appendStamp(dst []byte, stamp int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(stamp)^1<<63)
}

// reclaim looks at the next n expiries that are due.
func (l *large) reclaim(n int) {
	limit := l.now - l.t.spec.TTL
	if l.owed <= limit {
		l.flush()
	}
	l.due = math.MaxInt64
	for e := l.expiries.First(); e != nil; e = l.expiries.First() {
		stamp := int64(binary.BigEndian.Uint64(e) ^ 1<<63)
		if n--; stamp > limit || n < 0 {
			l.due = stamp
			return
		}
		l.expired = append(l.expired[:0], e[8:]...)
		l.expiries.Remove(e)
		l.expire(l.expired, limit)
	}
}

// expire deletes a record that was written at limit or before, and gives a younger one a later expiry.
func (l *large) expire(place []byte, limit int64) {
	id := l.find(place)
	if id == 0 {
		return
	}
	switch rec := l.cached(id); {
	case rec[0]&(hotDeleted|hotExpiry) != 0: // gone, or made again: its own expiry is still to be written
	case l.stamp(rec) <= limit:
		l.kill(id, rec)
	default:
		l.expireAt(place, l.stamp(rec))
	}
}
