package state

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// entry is what stays of a key while its record moves. Entries are never moved: their number is the Ref.
type entry struct {
	hash uint32
	next uint32 // of the same bucket, or of the free entries; 0: last
	ref  uint32 // record in the slab; 0: the entry is free
	list uint32 // dirty list that names the entry last; meaningless once that list is gone
	pos  uint32 // place in that list
}

const (
	pageBits = 10
	pageMask = 1<<pageBits - 1
)

// index is a linear hash: one bucket is split for each new entry, so that there is never a rehash. Buckets are chains
// through entries.
type index struct {
	entries [][]entry  // pages; entry 0 is none
	last    uint32     // highest entry ever used
	freed   uint32     // first of the free entries
	heads   [][]uint32 // pages of first entries of buckets
	buckets uint32
	mask    uint32 // lowest 2^n - 1 >= buckets - 1
	used    uint32 // entries in chains
}

const bucketsMin = 8

func newIndex() index {
	return index{heads: [][]uint32{make([]uint32, bucketsMin)}, buckets: bucketsMin, mask: bucketsMin - 1}
}

// hashOf takes the upper half: the lower bits choose the key group, and are alike within a task. xxhash without a seed:
// the same everywhere, and not proof against keys chosen to collide.
func hashOf(key, sub []byte) uint32 {
	h := xxhash.Sum64(key)
	if len(sub) > 0 {
		h = bits.RotateLeft64(h*0x9e3779b97f4a7c15, 31) ^ xxhash.Sum64(sub)
		h *= 0x9e3779b97f4a7c15
	}
	return uint32(h >> 32)
}

func (x *index) entry(id uint32) *entry { return &x.entries[id>>pageBits][id&pageMask] }

func (x *index) bucket(hash uint32) uint32 {
	b := hash & x.mask
	if b >= x.buckets {
		b &= x.mask >> 1
	}
	return b
}

func (x *index) head(b uint32) *uint32 { return &x.heads[b>>pageBits][b&pageMask] }

// insert puts a new entry into its chain and splits one bucket.
func (x *index) insert(hash, ref uint32) uint32 {
	id := x.freed
	if id != 0 {
		x.freed = x.entry(id).next
	} else {
		x.last++
		id = x.last
		if int(id>>pageBits) >= len(x.entries) {
			x.addPage()
		} else if n := len(x.entries) - 1; int(id&pageMask) >= len(x.entries[n]) {
			x.entries[n] = append(x.entries[n], make([]entry, len(x.entries[n]))...) // the first page grows: small tables are small
		}
	}
	h := x.head(x.bucket(hash))
	*x.entry(id) = entry{hash: hash, next: *h, ref: ref}
	*h = id
	x.used++
	if x.used > x.buckets {
		x.split()
	}
	return id
}

func (x *index) addPage() {
	n := 1 << pageBits
	if len(x.entries) == 0 {
		n = bucketsMin
	}
	x.entries = append(x.entries, make([]entry, n))
}

// split deals the entries of the next bucket out to it and to a new one.
func (x *index) split() {
	b := x.buckets
	if int(b>>pageBits) >= len(x.heads) {
		x.heads = append(x.heads, make([]uint32, 0, 1<<pageBits))
	}
	p := &x.heads[b>>pageBits]
	*p = append(*p, 0)
	x.buckets++
	if b > x.mask {
		x.mask = x.mask<<1 | 1
	}
	from, to := x.head(b&(x.mask>>1)), x.head(b)
	id := *from
	*from = 0
	for id != 0 {
		e := x.entry(id)
		next := e.next
		h := from
		if e.hash&x.mask == b {
			h = to
		}
		e.next, *h = *h, id
		id = next
	}
}

// remove takes an entry out of its chain and frees it.
func (x *index) remove(id uint32) {
	e := x.entry(id)
	p := x.head(x.bucket(e.hash))
	for *p != id {
		p = &x.entry(*p).next
	}
	*p = e.next
	*e = entry{next: x.freed}
	x.freed = id
	x.used--
}

// owner finds the entry whose record is at ref: 0 when that record is dead.
func (x *index) owner(hash, ref uint32) uint32 {
	id := *x.head(x.bucket(hash))
	for id != 0 {
		e := x.entry(id)
		if e.ref == ref {
			return id
		}
		id = e.next
	}
	return 0
}
