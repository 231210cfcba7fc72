package window

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
)

// BenchmarkAccumulate is the cost of avg, max and count alone, without key and table.
func BenchmarkAccumulate(b *testing.B) {
	value := optest.Expr("value")
	acc := newAccumulators([]Agg{{Kind: Avg, Arg: value}, {Kind: Max, Arg: value}, {Kind: CountRows}})
	entry := make([]byte, acc.size)
	slots, args := []pipeline.Value{{}, pipeline.FloatValue(21.5)}, make([]pipeline.Value, 1)
	b.ReportAllocs()
	for b.Loop() {
		if acc.arguments(slots, args) == "" {
			acc.add(cell{&acc.state, nil, entry}, args, place{})
		}
	}
}

func TestAccumulatingNumbersAllocatesNothing(t *testing.T) {
	var aggs []Agg
	for k := CountRows; k <= VarianceSamp; k++ {
		aggs = append(aggs, Agg{Kind: k, Arg: optest.Expr("value")})
	}
	acc := newAccumulators(aggs)
	entry := make([]byte, acc.size)
	slots, args := []pipeline.Value{{}, pipeline.FloatValue(21.5)}, make([]pipeline.Value, 1)
	n := testing.AllocsPerRun(100, func() {
		if acc.arguments(slots, args) == "" {
			acc.add(cell{&acc.state, nil, entry}, args, place{})
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per row, want none", n)
	}
}
