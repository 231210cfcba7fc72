package window

import (
	"bytes"
	"slices"
)

// series is what is known of one key: its panes, and whether it takes part in the firings.
type series struct {
	key    []byte // AppendKey of the row's key
	root   int32  // of its trie
	panes  int
	active bool
	at     uint64 // the pane that a row last went to, and its node
	leaf   int32
	sides  sides
}

// serieses are the keys that have panes. Those that take part in the firings are kept in the order of key bytes; a key that begins
// to is sorted in at the next firing.
type serieses struct {
	list   []series
	byKey  map[string]int32
	free   []int32
	active []int32 // sorted
	fresh  []int32
	merged []int32 // scratch
}

func newSerieses() serieses { return serieses{byKey: map[string]int32{}} }

// of gives the series of a key, making it when there is none.
func (s *serieses) of(key []byte) int32 {
	if id, ok := s.byKey[string(key)]; ok {
		return id
	}
	n := series{key: bytes.Clone(key)}
	id := int32(len(s.list))
	if last := len(s.free) - 1; last >= 0 {
		id = s.free[last]
		s.free = s.free[:last]
		s.list[id] = n
	} else {
		s.list = append(s.list, n)
	}
	s.byKey[string(n.key)] = id
	return id
}

// activate makes a key take part in the firings.
func (s *serieses) activate(id int32) {
	if !s.list[id].active {
		s.list[id].active = true
		s.fresh = append(s.fresh, id)
	}
}

// release forgets a key that has no panes and takes part in nothing.
func (s *serieses) release(id int32) {
	n := &s.list[id]
	if n.panes > 0 || n.active {
		return
	}
	delete(s.byKey, string(n.key))
	*n = series{}
	s.free = append(s.free, id)
}

func (s *serieses) compare(a, b int32) int { return bytes.Compare(s.list[a].key, s.list[b].key) }

// walk calls f for the keys that take part, in the order of key bytes; those for which it gives false take part no longer.
func (s *serieses) walk(f func(id int32) (keep bool)) {
	s.settle()
	kept := s.active[:0]
	for _, id := range s.active {
		if f(id) {
			kept = append(kept, id)
			continue
		}
		s.list[id].active = false
		s.release(id)
	}
	s.active = kept
}

// settle sorts the fresh keys in.
func (s *serieses) settle() {
	if len(s.fresh) == 0 {
		return
	}
	slices.SortFunc(s.fresh, s.compare)
	s.merged = s.merged[:0]
	i := 0
	for _, id := range s.fresh {
		for i < len(s.active) && s.compare(s.active[i], id) < 0 {
			s.merged = append(s.merged, s.active[i])
			i++
		}
		s.merged = append(s.merged, id)
	}
	s.merged = append(s.merged, s.active[i:]...)
	s.active, s.merged, s.fresh = s.merged, s.active, s.fresh[:0]
}
