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

// BenchmarkAggregates is the cost of a number in each aggregate, without key and table of the window.
func BenchmarkAggregates(b *testing.B) {
	for k := CountRows; k <= Rate; k++ {
		b.Run(k.String(), func(b *testing.B) {
			a := Agg{Kind: k}
			if k.Args() == 2 {
				a.Param = 50
			}
			s, _ := openAccumulators(b, a)
			c := s.newCell(&s.state, "a key")
			slots, args := []pipeline.Value{{}}, make([]pipeline.Value, 1)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				slots[0] = pipeline.FloatValue(float64(i*7919%5000) / 10)
				if s.arguments(slots, args) == "" {
					s.add(c, args, place{int64(i), pipeline.Position(i)})
				}
			}
		})
	}
}

// BenchmarkMerge is the cost of merging a pane of 500 numbers into a partial result that has them.
func BenchmarkMerge(b *testing.B) {
	for _, k := range []AggKind{Sum, Max, Stddev, Median, Distinct, Increase} {
		b.Run(k.String(), func(b *testing.B) {
			s, _ := openAccumulators(b, Agg{Kind: k})
			pane, total := s.newCell(&s.state, "pane"), s.newCell(s.scratch(), "total")
			for i := range 500 {
				s.addAll(pane, []row{{pipeline.FloatValue(float64(i) / 3), int64(i), pipeline.Position(i + 1)}})
			}
			b.ReportAllocs()
			for b.Loop() {
				s.merge(total, pane)
			}
		})
	}
}
