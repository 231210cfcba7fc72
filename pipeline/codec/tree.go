package codec

import (
	"github.com/weirstream/weir/pipeline"
)

// node is one place in a document that is wanted or leads to one. Nodes are built once; only seen and hint change.
type node struct {
	path     string // text form, for errors
	targets  []target
	members  []member
	elements []element
	seen     uint64 // number of the last document in which the place was met: finds duplicates
	hint     int    // member expected next: devices send the same order again and again
}

type target struct {
	slot int
	kind pipeline.Kind
}

type member struct {
	name string
	node *node
}

type element struct {
	index int
	node  *node
}

// newTree joins the paths of the fields.
func newTree(fields []Field) *node {
	root := &node{}
	for _, f := range fields {
		n := root
		for i, e := range f.Path {
			n = n.child(e, f.Path[:i+1])
		}
		n.targets = append(n.targets, target{slot: f.Slot, kind: f.Kind})
	}
	return root
}

func (n *node) child(e pipeline.PathElem, path pipeline.Path) *node {
	if e.Name == "" {
		for _, el := range n.elements {
			if el.index == e.Index {
				return el.node
			}
		}
		c := &node{path: path.String()}
		n.elements = append(n.elements, element{index: e.Index, node: c})
		return c
	}
	for _, m := range n.members {
		if m.name == e.Name {
			return m.node
		}
	}
	c := &node{path: path.String()}
	n.members = append(n.members, member{name: e.Name, node: c})
	return c
}

// member finds the child for a key, nil when it is not wanted.
func (n *node) member(key []byte) *node {
	for i, at := 0, n.hint; i < len(n.members); i, at = i+1, at+1 {
		if at >= len(n.members) {
			at = 0
		}
		if m := &n.members[at]; string(key) == m.name {
			n.hint = at + 1
			return m.node
		}
	}
	return nil
}

// element finds the child for an array index, nil when it is not wanted.
func (n *node) element(index int) *node {
	for i := range n.elements {
		if n.elements[i].index == index {
			return n.elements[i].node
		}
	}
	return nil
}

// clearSlots sets the slots of all fields to null.
func clearSlots(fields []Field, slots []pipeline.Value) {
	for i := range fields {
		slots[fields[i].Slot] = pipeline.Value{}
	}
}
