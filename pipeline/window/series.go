package window

import (
	"encoding/binary"
	"math/bits"
)

// The panes of all keys, each key's as a binary trie over the numbers of its panes (a series). An inner node stands for an aligned range
// of 2^level numbers and keeps, once asked for, the merged contents of its panes. What a window's contents are merged from, and in which
// grouping, is a function of the numbers alone (fold.go): neither the order in which panes came nor a restart shows in the last bit of a
// sum. (An aggregate over a tree of panes, as FiBA, Tangwongsan et al. 2019, with the shape fixed by the numbers.)
type forest struct {
	nodes []node // 0 is none
	free  int32  // first of a list through parent
	arena []byte // contents of inner nodes, size bytes each
	keys  []byte // names of the nodes among partial contents, nodeKeyBytes each
	size  int
}

type node struct {
	parent, left, right int32
	level               uint8 // 0: a pane
	valid               bool  // inner node: its contents are those of its panes
	index               uint64
}

const nodeKeyBytes = 4

// newForest makes an empty one. Node 0 is none; its contents are a window's under way.
func newForest(size int) forest {
	return forest{nodes: make([]node, 1), arena: make([]byte, size), keys: make([]byte, nodeKeyBytes), size: size}
}

func (f *forest) make(n node) int32 {
	if i := f.free; i != 0 {
		f.free = f.nodes[i].parent
		f.nodes[i] = n
		return i
	}
	f.nodes = append(f.nodes, n)
	f.arena = append(f.arena, make([]byte, f.size)...) // zeroed, also behind reset
	f.keys = binary.BigEndian.AppendUint32(f.keys, uint32(len(f.nodes)-1))
	return int32(len(f.nodes) - 1)
}

// reset drops all nodes. What they have outside of the arena is the caller's.
func (f *forest) reset() {
	f.nodes, f.arena, f.keys, f.free = f.nodes[:1], f.arena[:f.size], f.keys[:nodeKeyBytes], 0
}

func (f *forest) drop(i int32) {
	f.nodes[i] = node{parent: f.free}
	f.free = i
}

// bias makes the order of pane numbers, which may be negative, that of unsigned ones.
func bias(pane int64) uint64 { return uint64(pane) ^ 1<<63 }

// insert adds a pane and gives the root and the pane's node.
func (f *forest) insert(root int32, index uint64) (newRoot, leaf int32) {
	leaf = f.make(node{index: index})
	if root == 0 {
		return leaf, leaf
	}
	at := root
	for {
		n := &f.nodes[at]
		if n.level == 0 || index>>n.level != n.index {
			break
		}
		n.valid = false
		if index>>(n.level-1)&1 == 0 {
			at = n.left
		} else {
			at = n.right
		}
	}
	// The new inner node stands above at: its range is the smallest that holds both.
	n := f.nodes[at]
	low := n.index << n.level
	level := uint8(bits.Len64(index ^ low))
	if level <= n.level {
		panic("BUG: a pane is there twice")
	}
	inner := node{parent: n.parent, level: level, index: index >> level, left: at, right: leaf}
	if index < low {
		inner.left, inner.right = leaf, at
	}
	top := f.make(inner)
	f.nodes[at].parent, f.nodes[leaf].parent = top, top
	if inner.parent == 0 {
		return top, leaf
	}
	f.replace(inner.parent, at, top)
	return root, leaf
}

func (f *forest) replace(parent, was, is int32) {
	if p := &f.nodes[parent]; p.left == was {
		p.left = is
	} else {
		p.right = is
	}
}

// remove takes a pane out and gives the root, 0 when nothing is left.
func (f *forest) remove(root, leaf int32) int32 {
	f.stale(leaf)
	parent := f.nodes[leaf].parent
	f.drop(leaf)
	if parent == 0 {
		return 0
	}
	p := f.nodes[parent]
	sibling := p.left
	if sibling == leaf {
		sibling = p.right
	}
	f.drop(parent)
	f.nodes[sibling].parent = p.parent
	if p.parent == 0 {
		return sibling
	}
	f.replace(p.parent, parent, sibling)
	return root
}

// stale says that a pane's contents changed. Above a stale node all are.
func (f *forest) stale(leaf int32) {
	for i := f.nodes[leaf].parent; i != 0 && f.nodes[i].valid; i = f.nodes[i].parent {
		f.nodes[i].valid = false
	}
}

// find gives the node of a pane, 0 when it has none.
func (f *forest) find(root int32, index uint64) int32 {
	for at := root; at != 0; {
		n := &f.nodes[at]
		switch {
		case n.level == 0 && n.index == index:
			return at
		case n.level == 0 || index>>n.level != n.index:
			return 0
		case index>>(n.level-1)&1 == 0:
			at = n.left
		default:
			at = n.right
		}
	}
	return 0
}

// within gives the node of all panes in the aligned range of 2^level numbers from low on, 0 when there are none.
func (f *forest) within(root int32, low uint64, level uint8) int32 {
	for at := root; at != 0; {
		n := &f.nodes[at]
		switch {
		case n.level <= level:
			if n.index<<n.level>>level == low>>level {
				return at
			}
			return 0
		case low>>n.level != n.index:
			return 0
		case low>>(n.level-1)&1 == 0:
			at = n.left
		default:
			at = n.right
		}
	}
	return 0
}

// contents gives the memory of an inner node's contents and its name.
func (f *forest) contents(i int32) (key, contents []byte) {
	return f.keys[int(i)*nodeKeyBytes:][:nodeKeyBytes:nodeKeyBytes], f.arena[int(i)*f.size:][:f.size:f.size]
}
