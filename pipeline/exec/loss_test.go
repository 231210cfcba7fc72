package exec

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// TestPartialMarksWindowsThatOverlapTheLoss, and no others.
func TestPartialMarksWindowsThatOverlapTheLoss(t *testing.T) {
	columns := []codec.Column{{Name: "window_start", Slot: 0}, {Name: "window_end", Slot: 1}, {Name: "n", Slot: 2}}
	own := append(columns[:3:3], codec.Column{Name: "partial", Slot: 2})
	loss := &Loss{FromMs: 100, ToMs: 200}
	for _, c := range []struct {
		start, end int64
		columns    []codec.Column
		whole      int
		loss       *Loss
		want       string
	}{
		{40, 100, columns, -1, loss, `{"window_start":40,"window_end":100,"n":7}`}, // it had closed
		{40, 101, columns, -1, loss, `{"window_start":40,"window_end":101,"n":7,"partial":true}`},
		{120, 180, columns, -1, loss, `{"window_start":120,"window_end":180,"n":7,"partial":true}`},
		{199, 260, columns, -1, loss, `{"window_start":199,"window_end":260,"n":7,"partial":true}`},
		{200, 260, columns, -1, loss, `{"window_start":200,"window_end":260,"n":7}`},
		{120, 180, columns, -1, nil, `{"window_start":120,"window_end":180,"n":7}`},
		{120, 180, columns[1:], -1, loss, `{"window_end":180,"n":7}`},
		{120, 180, own, -1, loss, `{"window_start":120,"window_end":180,"n":7,"partial":7,"$partial":true}`},
	} {
		slots := []pipeline.Value{{Kind: pipeline.Int, Num: uint64(c.start)}, {Kind: pipeline.Int, Num: uint64(c.end)}, {Kind: pipeline.Int, Num: 7}}
		s := &sink{columns: c.columns, whole: c.whole, loss: c.loss, marks: lossColumnsOf(c.columns, c.whole)}
		var into [1]encoded
		(&encodeLane{}).encode(s, []pipeline.Row{{Slots: slots}}, into[:])
		if into[0].err != nil || string(into[0].payload) != c.want {
			t.Errorf("window %d to %d: %s, %v, want %s", c.start, c.end, into[0].payload, into[0].err, c.want)
		}
	}
	if lossColumnsOf(columns, 0).ok {
		t.Error("documents as they came are marked")
	}
}

// TestSourceClockIsThatOfTheState: what a savepoint's entry says is what the source goes on with.
func TestSourceClockIsThatOfTheState(t *testing.T) {
	for _, c := range []sourceClock{
		{started: true, timeMax: 5000, watermark: 4000}, {started: true, timeMax: 5000, watermark: pipeline.MaxWatermark}, {timeMax: pipeline.MinWatermark, watermark: pipeline.MinWatermark},
	} {
		s := &source{clock: c, plan: &plan.Source{Name: "s"}, lanes: []*decodeLane{{}}}
		s.keep(nil)
		if err := s.save(); err != nil {
			t.Fatal(err)
		}
		b, _ := s.table.Get(nil)
		watermark, newest, started := SourceClock(b)
		if started != c.started {
			t.Errorf("%+v: started %v", c, started)
		}
		if want := min(c.watermark, c.timeMax); c.started && (watermark != want || newest != c.timeMax) {
			t.Errorf("%+v: %d, %d", c, watermark, newest)
		}
	}
	for n := range sourceStateBytesOld {
		if _, _, started := SourceClock(make([]byte, n)); started {
			t.Errorf("%d bytes are a clock", n)
		}
	}
}
