package disktest

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
)

// Crasher enumerates what a power cut may leave of a Mem. Images that it gave before are left out. Seed makes the random part
// repeatable: tests print it.
type Crasher struct {
	Seed    uint64
	PerCall int // most images at one point; 0: 64
	rng     *rand.Rand
	hash    maphash.Seed
	seen    map[uint64]bool
}

// Distinct is how many images were given so far.
func (c *Crasher) Distinct() int { return len(c.seen) }

// choice is one legal outcome of what was not synced.
type choice struct {
	keep  []bool // each write
	torn  int    // index of a write that arrived in part; -1: none
	at    int    // it arrived up to at, or, when negative, from -at on
	names []bool // each group of name changes
	sizes bool   // files have the size that lost writes would have given them, with zeros
}

// Images calls f for legal images of m as it is now: nothing, everything, each prefix, each single loss, each single survivor
// of the unsynced writes, each write torn at sectors, random subsets; each with all, none, prefixes and single losses of the unsynced name
// changes, sizes kept or not. salt tells points apart whose files are equal but whose promises are not (what was acknowledged).
func (c *Crasher) Images(m *Mem, salt uint64, f func(image *Mem)) {
	if c.seen == nil {
		c.seen, c.rng, c.hash = map[uint64]bool{}, rand.New(rand.NewPCG(c.Seed, 1)), maphash.MakeSeed()
	}
	limit := c.PerCall
	if limit == 0 {
		limit = 64
	}
	v := m.view()
	for _, ch := range c.choices(v, limit) {
		img := v.image(ch)
		h := img.sum(c.hash, salt)
		if !c.seen[h] {
			c.seen[h] = true
			f(img)
		}
	}
}

// view is a Mem at an instant.
type view struct {
	nodes   []*inode // durable content of every file that has or may have a name
	writes  []placed
	groups  []int // of name changes
	durable map[string]int
	changes []viewChange
	dirs    map[string]bool
}

type placed struct {
	write
	node int
}

type viewChange struct {
	path  string
	node  int // -1: nothing
	group int
}

func (m *Mem) view() *view {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := &view{durable: map[string]int{}, dirs: maps.Clone(m.dirs)}
	index := map[*inode]int{}
	number := func(n *inode) int {
		if n == nil {
			return -1
		}
		i, ok := index[n]
		if !ok {
			i = len(v.nodes)
			index[n] = i
			v.nodes = append(v.nodes, &inode{durable: slices.Clone(n.durable)})
			for _, w := range n.pending {
				v.writes = append(v.writes, placed{write: w, node: i})
			}
		}
		return i
	}
	for _, name := range slices.Sorted(maps.Keys(m.durable)) {
		v.durable[name] = number(m.durable[name])
	}
	for _, ch := range m.changes {
		v.changes = append(v.changes, viewChange{path: ch.path, node: number(ch.node), group: ch.group})
		if len(v.groups) == 0 || v.groups[len(v.groups)-1] != ch.group {
			v.groups = append(v.groups, ch.group)
		}
	}
	return v
}

func (c *Crasher) choices(v *view, limit int) (out []choice) {
	data, names := c.dataChoices(v), nameChoices(len(v.groups))
	for _, d := range data {
		for _, n := range names {
			for _, sizes := range []bool{false, true} {
				d.names, d.sizes = n, sizes
				out = append(out, d)
			}
		}
	}
	if len(out) > limit { // the plain ones at the front stay
		c.rng.Shuffle(len(out)-2, func(i, j int) { out[i+2], out[j+2] = out[j+2], out[i+2] })
		out = out[:limit]
	}
	return out
}

func (c *Crasher) dataChoices(v *view) (data []choice) {
	n := len(v.writes)
	add := func(torn, at int, keep func(i int) bool) {
		data = append(data, choice{keep: flags(n, keep), torn: torn, at: at})
	}
	add(-1, 0, none)
	add(-1, 0, all)
	for i := range n {
		add(-1, 0, func(k int) bool { return k < i })
		add(-1, 0, func(k int) bool { return k != i })
		add(-1, 0, func(k int) bool { return k == i })
		w := &v.writes[i]
		step := SectorBytes * max(1, len(w.data)/SectorBytes/8)
		for at := SectorBytes - int(w.off%SectorBytes); at < len(w.data); at += step {
			add(i, at, func(k int) bool { return k <= i })
			add(i, at, all)
			add(i, -at, all)
		}
	}
	for range min(8, n*n) {
		bits := c.rng.Uint64()
		add(-1, 0, func(k int) bool { return bits>>(k%64)&1 != 0 })
	}
	return data
}

func nameChoices(n int) [][]bool {
	names := [][]bool{flags(n, all)}
	if n > 0 {
		names = append(names, flags(n, none))
	}
	for i := range n {
		names = append(names, flags(n, func(k int) bool { return k < i }), flags(n, func(k int) bool { return k != i }))
	}
	return names
}

func all(int) bool  { return true }
func none(int) bool { return false }

func flags(n int, keep func(i int) bool) []bool {
	b := make([]bool, n)
	for i := range b {
		b[i] = keep(i)
	}
	return b
}

// image builds the file system that a choice leaves: everything in it is durable.
func (v *view) image(ch choice) *Mem {
	content := make([][]byte, len(v.nodes))
	for i, n := range v.nodes {
		content[i] = slices.Clone(n.durable)
	}
	for k, w := range v.writes {
		b := content[w.node]
		if end := w.off + int64(len(w.data)); ch.sizes && !w.trunc && end > int64(len(b)) {
			b = append(b, make([]byte, end-int64(len(b)))...)
		}
		if ch.keep[k] {
			if ch.torn == k && !w.trunc {
				if ch.at >= 0 {
					w.data = w.data[:ch.at]
				} else {
					w.off, w.data = w.off-int64(ch.at), w.data[-ch.at:]
				}
			}
			b = w.apply(b)
		}
		content[w.node] = b
	}
	img := NewMem()
	img.dirs = maps.Clone(v.dirs)
	nodes := make([]*inode, len(content))
	for i, b := range content {
		nodes[i] = &inode{data: b, durable: slices.Clone(b)}
	}
	for name, i := range v.durable {
		img.durable[name] = nodes[i]
	}
	for _, c := range v.changes {
		switch {
		case !ch.names[slices.Index(v.groups, c.group)]:
		case c.node < 0:
			delete(img.durable, c.path)
		default:
			img.durable[c.path] = nodes[c.node]
		}
	}
	img.names = maps.Clone(img.durable)
	return img
}

func (m *Mem) sum(seed maphash.Seed, salt uint64) uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	maphash.WriteComparable(&h, salt)
	for _, name := range slices.Sorted(maps.Keys(m.durable)) {
		_, _ = h.WriteString(name)
		_, _ = h.Write(m.durable[name].durable)
	}
	return h.Sum64()
}

// Clone is an independent copy in which everything visible is durable.
func (m *Mem) Clone() *Mem {
	v := m.view()
	return v.image(choice{keep: flags(len(v.writes), all), torn: -1, names: flags(len(v.groups), all)})
}
