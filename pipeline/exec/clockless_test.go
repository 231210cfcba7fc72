package exec

import (
	"slices"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestClocklessInputsDoNotHoldTimeBack: the watermark of a merge is that of the other inputs, whether a clockless one has a time or none, is
// ahead, behind or idle.
func TestClocklessInputsDoNotHoldTimeBack(t *testing.T) {
	mark := func(pos, watermark int64, idle bool) pipeline.Mark {
		return pipeline.Mark{Pos: pipeline.Position(pos), Phase: pipeline.After, Watermark: watermark, Idle: idle}
	}
	left := &edge{marks: []pipeline.Mark{mark(1, 10, false), mark(3, 20, false), mark(6, 20, true), mark(8, 30, false)}}
	for name, right := range map[string][]pipeline.Mark{
		"without time": nil, "behind": {mark(2, 1, false), mark(7, 2, false)}, "ahead": {mark(2, 100, false)}, "idle": {mark(2, 5, true)},
	} {
		m := newMerger(2)
		m.without([]bool{false, true})
		if got := m.mergeMarks([]*edge{left, {marks: right}}); !slices.Equal(got, left.marks) {
			t.Errorf("%s: marks %v, want %v", name, got, left.marks)
		}
		plain := newMerger(2) // the test would see an input that counts
		if got := plain.mergeMarks([]*edge{left, {marks: right}}); slices.Equal(got, left.marks) {
			t.Errorf("%s: an input that counts makes the same marks", name)
		}
	}
}
