package window

import (
	"encoding/binary"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// The links of a key (fold.go), as its last firing left them, are kept beside the panes: the next firing reads one entry and the panes that are new,
// O(log) of them, and not every pane of the window. They are a function of the panes: in no checkpoint, made again where there are none. A row in a pane
// that a firing has seen drops them. What lies outside of an entry (texts, sketches, lists, top rows) is not kept: such windows read their panes.

// linkedPanes are the fewest panes of a window for which links are worth their writing.
const linkedPanes = 8

// openLinks makes the table of links where they are of use.
func (h *Hopping) openLinks() {
	if state.LargeBuilt && h.far != nil && !h.sided && h.assign.size/h.pane >= linkedPanes {
		h.far.links = h.entries.NewCache("links")
	}
}

// fireLinked is fireLent that goes on from the links of the key.
func (h *Hopping) fireLinked(key []byte, w Span, stays bool, out *pipeline.Out) bool {
	f := h.far
	if f.links == nil {
		return h.fireLent(key, w, stays, out)
	}
	s := h.lentTo(key)
	f.lazy = true
	defer func() {
		f.lazy = false
		h.giveBack()
	}()
	h.takeLinks(s)
	some := h.fireOne(lent, w, stays, out)
	if !some || !h.keepLinks(s) {
		f.links.Delete(s.key)
	}
	return some
}

// dropLinks is for a row in a pane that begins before what has fired.
func (h *Hopping) dropLinks(start int64, key []byte) {
	if h.far.links != nil && start < h.fired && !h.fault.staleLinks {
		h.far.links.Delete(key)
	}
}

// within gives the node of all panes of a series in an aligned range. Those of a key whose links are known come out of the index as they are asked for.
func (h *Hopping) within(s *series, low uint64, level uint8) (root int32) {
	if !state.LargeBuilt || h.far == nil || !h.far.lazy {
		return h.forest.within(s.root, low, level)
	}
	from := h.startOf(low)
	end := from + h.pane<<level
	h.far.walk.Walk(s.key, h.far.paneOf(s.key, from), func(name []byte) bool {
		start := startOf(name[len(s.key):])
		if start < end {
			root, _ = h.forest.insert(root, h.number(start))
		}
		return start < end
	})
	return root
}

// An entry of links: pivot u64, number of links left of it u8; per link its place u64, whether it has contents u8, and them.
const (
	linksHeadBytes = 8 + 1
	linkBytes      = 8 + 1
)

// takeLinks gives a series the links that are kept of its key.
func (h *Hopping) takeLinks(s *series) {
	b, ok := h.far.links.Get(s.key)
	if !ok {
		return
	}
	s.sides.pivot = binary.LittleEndian.Uint64(b)
	left := int(b[8])
	for b = b[linksHeadBytes:]; len(b) > 0; left-- {
		l := link{at: binary.LittleEndian.Uint64(b)}
		some := b[8] == 1
		if b = b[linkBytes:]; some {
			l.node = h.forest.make(node{})
			_, contents := h.forest.contents(l.node)
			copy(contents, b)
			b = b[len(contents):]
		}
		if left > 0 {
			s.sides.left = append(s.sides.left, l)
		} else {
			s.sides.right = append(s.sides.right, l)
		}
	}
}

// keepLinks is its inverse; false when the links do not fit an entry.
func (h *Hopping) keepLinks(s *series) bool {
	b := append(binary.LittleEndian.AppendUint64(h.far.entry[:0], s.sides.pivot), byte(len(s.sides.left)))
	for _, chain := range [...][]link{s.sides.left, s.sides.right} {
		for _, l := range chain {
			b = binary.LittleEndian.AppendUint64(b, l.at)
			if l.node == 0 {
				b = append(b, 0)
				continue
			}
			_, contents := h.forest.contents(l.node)
			if !h.flat(contents) {
				return false
			}
			b = append(append(b, 1), contents...)
		}
	}
	h.far.entry = b
	mustPut(h.far.links.Put(s.key, b))
	return true
}
