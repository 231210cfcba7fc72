package window

import (
	"cmp"
	"slices"
)

// keyed is a time with the keys that have something there: a pane, a window that was counted.
type keyed struct {
	start int64
	ids   []int32
}

// timeline is a list of times with keys, in order.
type timeline struct {
	list    []*keyed
	covered int // the first ones of the list have been given to cover
	spare   []*keyed
}

func (l *timeline) search(start int64) (int, bool) {
	if n := len(l.list); n > 0 && l.list[n-1].start <= start { // the usual case
		if l.list[n-1].start == start {
			return n - 1, true
		}
		return n, false
	}
	return slices.BinarySearchFunc(l.list, start, func(have *keyed, start int64) int { return cmp.Compare(have.start, start) })
}

// add notes that a key has something at start.
func (l *timeline) add(start int64, id int32) {
	n := l.note(start)
	n.ids = append(n.ids, id)
}

// note gives the place of a time, whatever keys it has.
func (l *timeline) note(start int64) *keyed {
	i, found := l.search(start)
	if !found {
		n := &keyed{}
		if last := len(l.spare) - 1; last >= 0 {
			n = l.spare[last]
			l.spare = l.spare[:last]
		}
		n.start, n.ids = start, n.ids[:0]
		l.list = slices.Insert(l.list, i, n)
		if i < l.covered {
			l.covered++
		}
	}
	return l.list[i]
}

// from gives the first time at or behind start.
func (l *timeline) from(start int64) (int64, bool) {
	if i, _ := l.search(start); i < len(l.list) {
		return l.list[i].start, true
	}
	return 0, false
}

// cover calls f for the keys of all times before end that it has not been called for.
func (l *timeline) cover(end int64, f func(id int32)) {
	for ; l.covered < len(l.list) && l.list[l.covered].start < end; l.covered++ {
		for _, id := range l.list[l.covered].ids {
			f(id)
		}
	}
}

// coverStarts is cover where the keys lie elsewhere.
func (l *timeline) coverStarts(end int64, f func(start int64)) {
	for ; l.covered < len(l.list) && l.list[l.covered].start < end; l.covered++ {
		f(l.list[l.covered].start)
	}
}

// first gives the earliest time.
func (l *timeline) first() (start int64, ok bool) {
	if len(l.list) == 0 {
		return 0, false
	}
	return l.list[0].start, true
}

// take removes the earliest time and gives its keys, valid until the next add.
func (l *timeline) take() []int32 {
	n := l.list[0]
	l.list = slices.Delete(l.list, 0, 1)
	l.covered = max(0, l.covered-1)
	l.spare = append(l.spare, n)
	return n.ids
}
