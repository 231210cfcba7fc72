package window

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// pane is one window with the keys that have an entry in it.
type pane struct {
	start, end int64
	text       []byte // the keys, one behind the other
	keys       []span
	index      *state.Index // not nil: the keys are there, behind start
	gone       int          // the first keys, whose entries went by their TTL
	goneTo     []byte       // with an index: those before it
}

type span struct{ from, to int }

func (p *pane) add(key []byte) {
	if state.LargeBuilt && p.index != nil {
		p.index.Set(append(appendStart(nil, p.start), key...), nil)
		if bytes.Compare(key, p.goneTo) < 0 { // it comes again
			p.goneTo = append(p.goneTo[:0], key...)
		}
		return
	}
	n := len(p.text)
	p.text = append(p.text, key...)
	p.keys = append(p.keys, span{n, len(p.text)})
}

func (p *pane) key(i int) []byte { return p.text[p.keys[i].from:p.keys[i].to] }

// each calls f for the keys: in byte order, once sort has been called.
func (p *pane) each(f func(key []byte)) {
	if !state.LargeBuilt || p.index == nil {
		for i := range p.keys {
			f(p.key(i))
		}
		return
	}
	start := appendStart(nil, p.start)
	p.index.Walk(start, start, func(key []byte) bool {
		f(key[startBytes:])
		return true
	})
}

// drop forgets the keys.
func (p *pane) drop() {
	if state.LargeBuilt && p.index != nil {
		p.index.DeletePrefix(appendStart(nil, p.start))
	}
}

// holds tells whether a key has an entry still. One that comes again is added again, hence those before gone are not asked twice.
func (p *pane) holds(there func(start int64, key []byte) bool) (found bool) {
	if state.LargeBuilt && p.index != nil {
		if len(p.goneTo) > 0 && there(p.start, p.goneTo) {
			return true
		}
		start := appendStart(nil, p.start)
		p.index.Walk(start, append(start, p.goneTo...), func(key []byte) bool {
			p.goneTo = append(p.goneTo[:0], key[startBytes:]...)
			found = there(p.start, p.goneTo)
			return !found
		})
		return found
	}
	for ; p.gone < len(p.keys); p.gone++ {
		if there(p.start, p.key(p.gone)) {
			return true
		}
	}
	return false
}

// sort puts the keys in byte order, which is the order of firing. A key whose entry went by its TTL and came again is
// there twice; it is kept once.
func (p *pane) sort() {
	compare := func(a, b span) int { return bytes.Compare(p.text[a.from:a.to], p.text[b.from:b.to]) }
	slices.SortFunc(p.keys, compare)
	p.keys = slices.CompactFunc(p.keys, func(a, b span) bool { return compare(a, b) == 0 })
}

// panes is the index of the windows that have entries, by (end, start). All windows of one operator have the same size,
// hence either orders them.
type panes struct {
	list  []*pane
	index *state.Index // of the keys, when the entries do not fit the memory; else nil
	fired int          // the first ones of the list, whose end the watermark has passed: they wait for the end of their lateness
	spare *pane        // one that is over, for its memory: in steady state each new window takes that of the last one
}

// at gives the pane with that start, making it when there is none; watermark tells whether it counts as fired.
func (p *panes) at(start, end, watermark int64) *pane {
	i, found := slices.BinarySearchFunc(p.list, start, func(have *pane, start int64) int { return cmp.Compare(have.start, start) })
	if found {
		return p.list[i]
	}
	n := p.spare
	if n == nil {
		n = &pane{}
	}
	p.spare = nil
	n.start, n.end, n.index = start, end, p.index
	p.list = slices.Insert(p.list, i, n)
	if end <= watermark {
		p.fired++
	}
	return n
}

// due gives the next window to fire at a watermark and counts it as fired; nil when there is none.
func (p *panes) due(watermark int64) *pane {
	if p.fired == len(p.list) || p.list[p.fired].end > watermark {
		return nil
	}
	p.fired++
	return p.list[p.fired-1]
}

// over removes and gives the first window whose end and lateness the watermark has passed; nil when there is none.
func (p *panes) over(watermark, lateness int64) *pane {
	if p.fired == 0 || p.list[0].end+lateness > watermark {
		return nil
	}
	first := p.list[0]
	p.list = slices.Delete(p.list, 0, 1)
	p.fired--
	return first
}

// skip drops the next windows to fire, up to one that holds an entry.
func (p *panes) skip(there func(start int64, key []byte) bool) {
	for p.fired < len(p.list) && !p.list[p.fired].holds(there) {
		p.list[p.fired].drop()
		p.list = slices.Delete(p.list, p.fired, p.fired+1)
	}
}

// spareBytesMax bounds the keys of a pane that is kept for its memory: one that is larger grows in few steps for many rows.
const spareBytesMax = 64 << 10

// reuse takes back a pane that over gave.
func (p *panes) reuse(n *pane) {
	if cap(n.text) > spareBytesMax {
		return
	}
	n.text, n.keys, n.gone, n.goneTo = n.text[:0], n.keys[:0], 0, n.goneTo[:0]
	p.spare = n
}

// deadline is the end of the next window to fire.
func (p *panes) deadline() int64 {
	if p.fired == len(p.list) {
		return pipeline.NoDeadline
	}
	return p.list[p.fired].end
}
