package window_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/pipeline/window"
)

type tables struct{}

func (tables) Table(spec state.Spec) (*state.Table, error) { return state.New(spec), nil }

// BenchmarkTumbling is the cost of a row in steady state: key, table, accumulators. No window fires.
func BenchmarkTumbling(b *testing.B) {
	value := optest.Expr("value")
	for _, bench := range []struct {
		name string
		aggs []window.Agg
	}{
		{"count", []window.Agg{{Kind: window.CountRows, Slot: 3}}},
		{"avg,max,count", []window.Agg{
			{Kind: window.Avg, Arg: value, Slot: 3}, {Kind: window.Max, Arg: value, Slot: 4}, {Kind: window.CountRows, Slot: 5},
		}},
	} {
		for _, keys := range []int{100, 10000} {
			b.Run(fmt.Sprintf("%s/keys=%d", bench.name, keys), func(b *testing.B) {
				op := window.NewTumbling(window.TumblingConfig{
					Key: []int{optest.SlotKey}, SizeMs: time.Hour.Milliseconds(), Aggs: bench.aggs, Width: 6, KeyOut: []int{0},
					StartSlot: 1, EndSlot: 2, RevisionSlot: -1,
				})
				if err := op.Open(tables{}); err != nil {
					b.Fatal(err)
				}
				rows := make([]pipeline.Row, keys)
				for i := range rows {
					rows[i] = pipeline.Row{Time: 1, Slots: []pipeline.Value{
						pipeline.StringValue(fmt.Sprintf("device-%05d", i)), pipeline.FloatValue(float64(i) / 10),
					}}
				}
				out := pipeline.NewOut("", 2)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					op.Process(0, &rows[i], out)
					if i++; i == keys {
						i = 0
					}
				}
			})
		}
	}
}

func TestRowsInSteadyStateAllocateNothing(t *testing.T) {
	op := window.NewTumbling(tumbling(time.Hour, 0))
	if err := op.Open(tables{}); err != nil {
		t.Fatal(err)
	}
	out := pipeline.NewOut("", 2)
	row := pipeline.Row{Time: 1, Slots: []pipeline.Value{pipeline.StringValue("device-1"), pipeline.FloatValue(21.5)}}
	if n := testing.AllocsPerRun(100, func() { op.Process(0, &row, out) }); n != 0 {
		t.Errorf("%v allocations per row, want none", n)
	}
}
