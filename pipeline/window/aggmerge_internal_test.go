package window

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/state"
)

// row is what a window sees of one record: in the order of arrival, which is not that of time.
type row struct {
	v    pipeline.Value
	time int64
	pos  pipeline.Position
}

// newTables opens accumulators over tables of their own.
type newTables struct{ all []*state.Table }

func (n *newTables) Table(spec state.Spec) (*state.Table, error) {
	t := state.New(spec)
	n.all = append(n.all, t)
	return t, nil
}

func openAccumulators(t interface{ Fatal(...any) }, aggs ...Agg) (*accumulators, *newTables) {
	for i := range aggs {
		if aggs[i].Kind != CountRows {
			aggs[i].Arg = optest.Expr("key")
		}
		if err := aggs[i].validate(); err != nil {
			t.Fatal(err)
		}
	}
	s, tables := newAccumulators(aggs), &newTables{}
	if err := s.open(tables); err != nil {
		t.Fatal(err)
	}
	return s, tables
}

func (s *accumulators) newCell(n *side, key string) cell {
	c := cell{n, []byte(key), make([]byte, s.size)}
	s.begin(c)
	return c
}

func (s *accumulators) addAll(c cell, rows []row) {
	args := make([]pipeline.Value, len(s.args))
	for _, r := range rows {
		if s.arguments([]pipeline.Value{r.v}, args) == "" {
			s.add(c, args, place{r.time, r.pos})
		}
	}
}

// value is a result as text, for comparison.
func (s *accumulators) value(i int, c cell) string {
	out := pipeline.NewOut("test", 1)
	b, err := codec.AppendValue(nil, s.result(i, c, out))
	if err != nil {
		return "error: " + s.result(i, c, out).Str
	}
	return string(b)
}

// panes deals rows out to panes by time, in the order of arrival within each, and merges the panes in the order of time.
func (s *accumulators) throughPanes(rows []row, size int64) cell {
	byPane := map[int64][]row{}
	var starts []int64
	for _, r := range rows {
		start := r.time - (r.time%size+size)%size
		if byPane[start] == nil {
			starts = append(starts, start)
		}
		byPane[start] = append(byPane[start], r)
	}
	slices.Sort(starts)
	total := s.newCell(s.scratch(), "total")
	for _, start := range starts {
		pane := s.newCell(&s.state, fmt.Sprint("pane", start))
		s.addAll(pane, byPane[start])
		s.merge(total, pane)
	}
	return total
}

func drawRows(t *rapid.T, values *rapid.Generator[pipeline.Value]) (rows []row) {
	for i := range rapid.IntRange(0, 40).Draw(t, "rows") {
		rows = append(rows, row{values.Draw(t, "value"), rapid.Int64Range(-50, 50).Draw(t, "time"), pipeline.Position(i + 1)})
	}
	return rows
}

var anyValues = rapid.SampledFrom([]pipeline.Value{
	{}, pipeline.IntValue(1), pipeline.IntValue(-3), pipeline.IntValue(7), pipeline.IntValue(math.MaxInt64), pipeline.UintValue(math.MaxUint64), pipeline.FloatValue(0.5),
	pipeline.BoolValue(true), pipeline.StringValue(""), pipeline.StringValue("a\x00b"), pipeline.StringValue("b"), pipeline.StringValue(string(bytes.Repeat([]byte("x"), 100))),
	pipeline.JSONValue(`{"a":1}`), pipeline.BytesValue("\xff\x00"),
})

var floats = rapid.Map(rapid.OneOf(rapid.Float64Range(-1000, 1000), rapid.SampledFrom([]float64{0, 1, -1, 1e6, 0.1})), pipeline.FloatValue)

// TestMergedPanesAreOneWindow: what many panes make together is what one window makes, byte for byte where nothing is rounded.
func TestMergedPanesAreOneWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openAccumulators(t, Agg{Kind: CountRows}, Agg{Kind: Count}, Agg{Kind: Min}, Agg{Kind: Max}, Agg{Kind: First}, Agg{Kind: Last},
			Agg{Kind: Distinct}, Agg{Kind: Collect, Param: 5}, Agg{Kind: Collect, Param: 1000})
		rows := drawRows(t, anyValues)
		if found := s.mergeDiffers(rows, rapid.Int64Range(1, 60).Draw(t, "pane")); found != "" {
			t.Fatal(found)
		}
	})
}

func (s *accumulators) mergeDiffers(rows []row, size int64) string {
	one := s.newCell(&s.state, "one")
	s.addAll(one, rows)
	total := s.throughPanes(rows, size)
	for i := range s.aggs {
		if got, want := s.value(i, total), s.value(i, one); got != want {
			return fmt.Sprintf("%s of panes is %s, of one window %s", s.aggs[i].kind, got, want)
		}
	}
	return ""
}

func TestPlantedOrderOfMergingIsFound(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: First}, Agg{Kind: Last})
	rows := []row{{pipeline.IntValue(2), 20, 1}, {pipeline.IntValue(1), 10, 2}}
	if s.mergeDiffers(rows, 5) != "" {
		t.Fatal("first and last are not in the order of arrival")
	}
	s, _ = openAccumulators(t, Agg{Kind: First}, Agg{Kind: Last})
	if s.fault.arrival = true; s.mergeDiffers(rows, 5) == "" {
		t.Error("not found")
	}
}

// plain are the definitions, over the numbers of all rows.
func plain(k AggKind, p float64, x []float64) (want float64, null bool) {
	n := float64(len(x))
	mean, squares := 0.0, 0.0
	for _, v := range x {
		mean += v / n
	}
	for _, v := range x {
		squares += (v - mean) * (v - mean)
	}
	sorted := append([]float64(nil), x...)
	sort.Float64s(sorted)
	rank := p / 100 * (n - 1)
	switch {
	case k == Sum:
		return mean * n, n == 0
	case n == 0:
		return 0, true
	case k == Avg:
		return mean, false
	case k == Variance:
		return squares / n, false
	case k == Stddev:
		return math.Sqrt(squares / n), false
	case k == VarianceSamp:
		return squares / (n - 1), n < 2
	case k == StddevSamp:
		return math.Sqrt(squares / (n - 1)), n < 2
	}
	low := sorted[int(rank)]
	high := sorted[min(int(rank)+1, len(sorted)-1)]
	return low + (high-low)*(rank-math.Floor(rank)), false
}

var numeric = []Agg{
	{Kind: Sum}, {Kind: Avg}, {Kind: Stddev}, {Kind: StddevSamp}, {Kind: Variance}, {Kind: VarianceSamp}, {Kind: Median}, {Kind: Percentile, Param: 0},
	{Kind: Percentile, Param: 12.5}, {Kind: Percentile, Param: 100},
}

func (s *accumulators) wrong(rows []row, c cell) string {
	var x []float64
	for _, r := range rows {
		if f, ok := r.v.AsFloat(); ok {
			x = append(x, f)
		}
	}
	for i, a := range s.aggs {
		p := a.param
		if a.kind == Median {
			p = 50
		}
		want, null := plain(a.kind, p, x)
		got := s.result(i, c, pipeline.NewOut("test", 1))
		if f, _ := got.AsFloat(); null != got.IsNull() || !null && math.Abs(f-want) > 1e-9*math.Max(1, math.Max(math.Abs(want), scale(a.kind, x))) {
			return fmt.Sprintf("%s(%g) is %v (%g), want %g, null %v", a.kind, a.param, got, f, want, null)
		}
	}
	return ""
}

// scale is what rounding is measured by.
func scale(k AggKind, x []float64) (most float64) {
	for _, v := range x {
		most = max(most, math.Abs(v))
	}
	if k == Variance || k == VarianceSamp {
		return most * most
	}
	if k == Sum {
		return most * float64(len(x))
	}
	return most
}

// TestNumbersFollowTheirDefinitions, in one window and in panes.
func TestNumbersFollowTheirDefinitions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := openAccumulators(t, numeric...)
		rows := drawRows(t, rapid.OneOf(floats, rapid.Map(rapid.Int64Range(-1e6, 1e6), pipeline.IntValue), rapid.Just(pipeline.Value{})))
		one := s.newCell(&s.state, "one")
		s.addAll(one, rows)
		if found := s.wrong(rows, one); found != "" {
			t.Fatal(found)
		}
		if found := s.wrong(rows, s.throughPanes(rows, rapid.Int64Range(1, 60).Draw(t, "pane"))); found != "" {
			t.Fatal("panes: " + found)
		}
	})
}

func TestPlantedUnweightedMergeIsFound(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Variance})
	rows := []row{{pipeline.IntValue(1), 1, 1}, {pipeline.IntValue(9), 11, 2}}
	if found := s.wrong(rows, s.throughPanes(rows, 5)); found != "" {
		t.Fatal(found)
	}
	s.fault.unweighted = true
	if s.wrong(rows, s.throughPanes(rows, 5)) == "" {
		t.Error("not found")
	}
}

// TestVarianceOfLargeNumbersWithASmallSpread is where the textbook formula (squares less square of sums) gives nonsense.
func TestVarianceOfLargeNumbersWithASmallSpread(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Variance}, Agg{Kind: Stddev})
	var rows []row
	for i := range 1000 {
		rows = append(rows, row{pipeline.FloatValue(1e9 + float64(i%3)), int64(i), pipeline.Position(i + 1)})
	}
	c := s.throughPanes(rows, 7)
	if got := s.result(0, c, pipeline.NewOut("test", 1)).Float(); math.Abs(got-0.666) > 0.001 {
		t.Errorf("variance is %v, want 0.666", got)
	}
}

func TestCollectedIsAJSONArrayInTheOrderOfArrival(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Collect, Param: 4})
	rows := []row{{pipeline.StringValue("b\""), 20, 1}, {pipeline.Value{}, 1, 2}, {pipeline.FloatValue(1.5), 10, 3}, {pipeline.JSONValue(`[1]`), 11, 4}, {pipeline.BoolValue(true), 1, 5}, {pipeline.IntValue(9), 30, 6}}
	got := s.value(0, s.throughPanes(rows, 5))
	if want := `["b\"",1.5,[1],true]`; got != want || !json.Valid([]byte(got)) {
		t.Errorf("collected %s, want %s", got, want)
	}
}

// TestMergingAllocatesNothingForNumbers: hopping windows merge at each firing.
func TestMergingAllocatesNothingForNumbers(t *testing.T) {
	var aggs []Agg
	for k := CountRows; k <= Rate; k++ {
		if k != Collect {
			aggs = append(aggs, Agg{Kind: k})
		}
	}
	s, _ := openAccumulators(t, aggs...)
	pane, total := s.newCell(&s.state, "pane"), s.newCell(s.scratch(), "total")
	for i := range 400 {
		s.addAll(pane, []row{{pipeline.FloatValue(float64(i) / 3), int64(i), pipeline.Position(i + 1)}})
	}
	s.merge(total, pane)
	if n := testing.AllocsPerRun(100, func() { s.merge(total, pane) }); n != 0 {
		t.Errorf("%v allocations per merge", n)
	}
}
