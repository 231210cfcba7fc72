package state

import "bytes"

// Cursor goes through an Index forwards, by many short walks over one iterator: what was there when it was made. Close ends it.
type Cursor struct {
	index *Index
	it    Iter
	at    []byte // scratch
	open  bool
}

// Cursor begins. The changes that come later are not seen by it.
func (x *Index) Cursor() *Cursor {
	x.flush()
	it, err := x.db.Iter(append([]byte(nil), x.prefix...), successor(x.prefix))
	x.must(err)
	return &Cursor{index: x, it: it, open: true}
}

// Walk calls f for the keys from from on that begin with p, in byte order, until f returns false. key is valid during the call.
func (c *Cursor) Walk(p, from []byte, f func(key []byte) bool) {
	n := len(c.index.prefix)
	c.at = append(append(c.at[:0], c.index.prefix...), from...)
	for ok := c.it.SeekGE(c.at); ok; ok = c.it.Next() {
		if key := c.it.Key()[n:]; !bytes.HasPrefix(key, p) || !f(key) {
			return
		}
	}
}

// Close frees the iterator; an error that it met is the panic of the last walk. Repeating it is harmless.
func (c *Cursor) Close() {
	if c.open {
		c.open = false
		c.index.must(c.it.Close())
	}
}

// KeysFrom appends to dst the keys of a large value table that begin with p, from from on, in byte order: n of them at most, each a copy. It is how
// an operator goes through a part of a table that it changes meanwhile.
func (t *Table) KeysFrom(dst [][]byte, p, from []byte, n int) [][]byte {
	if t.large == nil || t.spec.Kind != Value {
		panic("BUG: state table " + t.spec.Name + ": only a large value table is in order")
	}
	t.large.walkFrom(p, from, func(place, _ []byte) bool {
		if n--; n < 0 {
			return false
		}
		dst = append(dst, bytes.Clone(place))
		return true
	})
	return dst
}
