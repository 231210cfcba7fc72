package state

import (
	"bytes"

	"github.com/cespare/xxhash/v2"
)

// The subkeys of one key of a large Map table are a group: their keys in the Backing begin with the same bytes, and no other key does. Other keys are alone.

// groupSpace is the space of the entries of a Map table.
const groupSpace = 'g'

// spaceAt is where a key in the Backing names its space.
const spaceAt = 4

// Grouped gives the length of what a key in the Backing has in common with its group, all of it when it is alone. To compare two keys is to compare these
// parts, and the rest where they are equal: a Backing may make filters of them. Any bytes may be asked about.
func Grouped(key []byte) int {
	if len(key) <= spaceAt || key[spaceAt] != groupSpace {
		return len(key)
	}
	if n := spaceAt + 1 + groupEnd(key[spaceAt+1:]); n > spaceAt+1 {
		return n
	}
	return len(key)
}

// WithinGroup tells whether all keys with lower <= key < upper are of one group.
func WithinGroup(lower, upper []byte) bool {
	if len(lower) <= spaceAt || lower[spaceAt] != groupSpace {
		return false
	}
	n := groupEnd(lower[spaceAt+1:])
	return n > 0 && within(lower[:spaceAt+1+n], upper)
}

// groupEnd gives the length of the escaped key that a place begins with (appendEscaped), 0 for none.
func groupEnd(place []byte) int {
	for i := 0; i+1 < len(place); i++ {
		if place[i] != 0 {
			continue
		}
		switch i++; place[i] {
		case 1:
			return i + 1
		case 0xff: // a zero of the key
		default:
			return 0
		}
	}
	return 0
}

// within tells whether upper is at most what follows all keys that begin with group.
func within(group, upper []byte) bool {
	n := len(group) - 1
	return len(upper) > n && bytes.Equal(upper[:n], group[:n]) && (upper[n] <= group[n] || upper[n] == group[n]+1 && len(upper) == n+1)
}

// wait notes that an entry of a Map table is to be written.
func (l *large) wait(id uint32) {
	if l.waiting == nil || l.fault.blindWalk {
		return
	}
	place, _ := l.hot.layout.keys(l.hot.slab.at(l.hot.index.entry(id).ref))
	l.waiting[xxhash.Sum64(place[:groupEnd(place)])] = struct{}{}
}

// flushFor writes what waits before a walk over from <= place < to; nothing when that is a group of which nothing waits.
func (l *large) flushFor(from, to []byte) {
	if l.waiting != nil {
		if n := groupEnd(from); n > 0 && within(from[:n], to) {
			if _, waits := l.waiting[xxhash.Sum64(from[:n])]; !waits {
				return
			}
		}
	}
	l.flush()
}
