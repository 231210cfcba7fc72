package window

import "math/bits"

// A window of panes [from, to) is split at its pivot, the number behind from, up to to, that the highest power of two divides. Left of it
// the contents from p on are those of the largest aligned range that begins at p, and behind them the contents from its end on; right of
// it the contents up to q are those up to q less its lowest bit, and then the aligned range between. Both chains are kept: when the window
// slides by a pane, one or two links are new (as the two stacks of Tangwongsan et al., "Low-latency sliding-window aggregation", 2017, with
// the places of the links fixed by the numbers). A row that comes late takes the links off that it is in: O(log) of them.
type sides struct {
	pivot       uint64
	left, right []link // the ends of the chains are last
}

// link is the contents from a number up to the pivot, or from the pivot up to a number. They lie where those of a node would; 0: none.
type link struct {
	at   uint64
	node int32
}

// pivotOf gives the number in (from, to] that the highest power of two divides.
func pivotOf(from, to uint64) uint64 {
	return to >> (bits.Len64(from^to) - 1) << (bits.Len64(from^to) - 1)
}

// next is the end of the largest aligned range that begins at p and does not pass the pivot.
func next(p, pivot uint64) (end uint64, level uint8) {
	level = uint8(min(bits.TrailingZeros64(p), bits.Len64(pivot-p)-1))
	return p + 1<<level, level
}

// fold gives the contents of a window, valid until the next call; false when there are none.
func (h *Hopping) fold(s *series, w Span) (c cell, some bool) {
	from, to := h.number(w.Start), h.number(w.End)
	if pivot := pivotOf(from, to); pivot != s.sides.pivot {
		h.letGo(s)
		s.sides.pivot = pivot
	}
	left, right := h.foldLeft(s, from), h.foldRight(s, to)
	switch {
	case left == 0 && right == 0:
		return c, false
	case right == 0:
		return h.linked(left), true
	case left == 0:
		return h.linked(right), true
	}
	whole := h.emptied(0)
	h.put(whole, h.linked(left))
	h.merge(whole, h.linked(right))
	return whole, true
}

// foldLeft gives the contents from a number up to the pivot, 0 for none.
func (h *Hopping) foldLeft(s *series, from uint64) int32 {
	l := &s.sides
	h.places = h.places[:0]
	for p := from; p != l.pivot; p, _ = next(p, l.pivot) {
		for len(l.left) > 0 && l.left[len(l.left)-1].at < p {
			l.left = h.unlink(l.left)
		}
		if n := len(l.left); n > 0 && l.left[n-1].at == p {
			break
		}
		h.places = append(h.places, p)
	}
	if len(h.places) > 0 && h.behind(h.places[len(h.places)-1], l.pivot) {
		l.left = h.unlinkAll(l.left)
	}
	for i := len(h.places) - 1; i >= 0; i-- {
		p := h.places[i]
		behind := int32(0)
		if n := len(l.left); n > 0 {
			behind = l.left[n-1].node
		}
		_, level := next(p, l.pivot)
		l.left = append(l.left, link{p, h.join(s, h.within(s, p, level), behind, true)})
	}
	if n := len(l.left); n > 0 {
		return l.left[n-1].node
	}
	return 0
}

// behind tells whether the link from p on reaches the pivot: then no link is behind it.
func (h *Hopping) behind(p, pivot uint64) bool {
	end, _ := next(p, pivot)
	return end == pivot
}

// foldRight gives the contents from the pivot up to a number, 0 for none.
func (h *Hopping) foldRight(s *series, to uint64) int32 {
	r := &s.sides
	h.places = h.places[:0]
	for q := to; q != r.pivot; q &= q - 1 {
		for len(r.right) > 0 && r.right[len(r.right)-1].at > q {
			r.right = h.unlink(r.right)
		}
		if n := len(r.right); n > 0 && r.right[n-1].at == q {
			break
		}
		h.places = append(h.places, q)
	}
	if len(h.places) > 0 && h.places[len(h.places)-1]&(h.places[len(h.places)-1]-1) == r.pivot {
		r.right = h.unlinkAll(r.right)
	}
	if to == r.pivot {
		r.right = h.unlinkAll(r.right)
	}
	for i := len(h.places) - 1; i >= 0; i-- {
		q := h.places[i]
		before := int32(0)
		if n := len(r.right); n > 0 {
			before = r.right[n-1].node
		}
		level := uint8(bits.TrailingZeros64(q))
		r.right = append(r.right, link{q, h.join(s, h.within(s, q&(q-1), level), before, false)})
	}
	if n := len(r.right); n > 0 {
		return r.right[n-1].node
	}
	return 0
}

// join makes the contents of a link from those of a node and of another link, which come first or second; 0 for none.
func (h *Hopping) join(s *series, n, other int32, first bool) int32 {
	if n == 0 && other == 0 {
		return 0
	}
	into := h.forest.make(node{})
	if n != 0 {
		h.settle(s, n) // before anything refers to contents
	}
	c := h.emptied(into)
	switch {
	case n == 0:
		h.put(c, h.linked(other))
	case other == 0:
		h.put(c, h.contentsOf(s, n))
	case first:
		h.put(c, h.contentsOf(s, n))
		h.merge(c, h.linked(other))
	default:
		h.put(c, h.linked(other))
		h.merge(c, h.contentsOf(s, n))
	}
	return into
}

// linked gives the contents of a link.
func (h *Hopping) linked(n int32) cell {
	key, contents := h.forest.contents(n)
	return cell{side: h.partial, key: key, entry: contents}
}

// unlink takes the end off a chain.
func (h *Hopping) unlink(chain []link) []link {
	last := len(chain) - 1
	if n := chain[last].node; n != 0 {
		h.forget(h.linked(n))
		h.forest.drop(n)
	}
	return chain[:last]
}

func (h *Hopping) unlinkAll(chain []link) []link {
	for len(chain) > 0 {
		chain = h.unlink(chain)
	}
	return chain
}

// unfold takes off the links that a pane is in.
func (h *Hopping) unfold(s *series, pane uint64) {
	l := &s.sides
	if pane < l.pivot {
		for len(l.left) > 0 && l.left[len(l.left)-1].at <= pane {
			l.left = h.unlink(l.left)
		}
		return
	}
	for len(l.right) > 0 && l.right[len(l.right)-1].at > pane {
		l.right = h.unlink(l.right)
	}
}

// letGo drops both chains.
func (h *Hopping) letGo(s *series) {
	s.sides.left, s.sides.right = h.unlinkAll(s.sides.left), h.unlinkAll(s.sides.right)
	s.sides.pivot = 0
}
