package exec

import "github.com/weirstream/weir/pipeline"

// edge is what one producer hands to its consumers for one batch: rows and marks, each in total order.
type edge struct {
	rows  []pipeline.Row
	marks []pipeline.Mark
	ties  []pipeline.Tie // of the rows, between two steps of a keyed region; else nil
	// groups are those of the rows' keys, when the decoders have found them for the region that reads the edge; else nil. Behind a source only.
	groups []uint8
	state  edgeState
	// from is where an open edge goes on: no further row lies before its position and phase.
	from pipeline.At
}

// edgeState tells how much of the batch an edge holds.
type edgeState uint8

const (
	whole   edgeState = iota // all of it
	open                     // a beginning; the marks are all there
	waiting                  // nothing yet: what stands there is of the batch before
)

// mergeInput is the state that a merge keeps per input between batches.
type mergeInput struct {
	watermark int64
	idle      bool
	clockless bool // its watermark plays no part
}

// merger joins the edges into one step. It owns what it returns until the next call. Merging is by (At, input index):
// inputs are in plan order, so this is the total order of DESIGN.md.
type merger struct {
	inputs []mergeInput
	last   int64
	idle   bool
	// announce: the first mark after a restore goes out though it says nothing new; the steps behind start from it.
	announce bool
	marks    []pipeline.Mark
	heads    []int
}

func newMerger(n int) *merger {
	m := &merger{inputs: make([]mergeInput, n), last: pipeline.MinWatermark, heads: make([]int, n)}
	for i := range m.inputs {
		m.inputs[i].watermark = pipeline.MinWatermark
	}
	return m
}

// mergeMarks gives the marks of the merged stream: at each place where an input's mark changes, the combined watermark,
// when it or the idle flag changed.
func (m *merger) mergeMarks(edges []*edge) []pipeline.Mark {
	m.marks = m.marks[:0]
	clear(m.heads)
	for {
		next := -1
		for i, e := range edges {
			if m.heads[i] < len(e.marks) && (next < 0 || markBefore(e.marks[m.heads[i]], edges[next].marks[m.heads[next]])) {
				next = i
			}
		}
		if next < 0 {
			return m.marks
		}
		at := edges[next].marks[m.heads[next]]
		for i, e := range edges { // every input that moves at this place moves together
			for m.heads[i] < len(e.marks) && e.marks[m.heads[i]].Pos == at.Pos && e.marks[m.heads[i]].Phase == at.Phase {
				m.inputs[i].watermark, m.inputs[i].idle = e.marks[m.heads[i]].Watermark, e.marks[m.heads[i]].Idle
				m.heads[i]++
			}
		}
		w, idle := combine(m.inputs, m.last)
		if w != m.last || idle != m.idle || m.announce {
			m.last, m.idle, m.announce = w, idle, false
			m.marks = append(m.marks, pipeline.Mark{Pos: at.Pos, Phase: at.Phase, Idle: idle, Watermark: w})
		}
	}
}

func markBefore(a, b pipeline.Mark) bool {
	return a.Pos < b.Pos || a.Pos == b.Pos && a.Phase < b.Phase
}

// without takes the watermarks of inputs out of the combined one.
func (m *merger) without(clockless []bool) {
	for i, is := range clockless {
		m.inputs[i].clockless = is
	}
}

// combine is Flink's StatusWatermarkValve: the minimum over active inputs; all idle: the maximum; it never goes back.
func combine(inputs []mergeInput, last int64) (watermark int64, idle bool) {
	low, high, active := int64(pipeline.MaxWatermark), int64(pipeline.MinWatermark), false
	for _, in := range inputs {
		if in.clockless {
			continue
		}
		if !in.idle {
			active = true
			low = min(low, in.watermark)
		}
		high = max(high, in.watermark)
	}
	if !active {
		return max(last, high), true
	}
	return max(last, low), false
}

// nextRow gives the input whose head row comes first, or -1.
func nextRow(edges []*edge, heads []int) int {
	next := -1
	for i, e := range edges {
		if heads[i] >= len(e.rows) {
			continue
		}
		if next < 0 || e.rows[heads[i]].At.Compare(edges[next].rows[heads[next]].At) < 0 {
			next = i
		}
	}
	return next
}
