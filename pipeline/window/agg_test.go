package window_test

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/optest"
	"github.com/weirstream/weir/pipeline/window"
)

// aggregate runs one aggregate over values in one window.
func aggregate(t require, kind window.AggKind, plant func(*window.Tumbling), values ...pipeline.Value) (pipeline.Value, []pipeline.DeadRow) {
	t.Helper()
	c := window.TumblingConfig{
		SizeMs: 1000, Aggs: []window.Agg{{Kind: kind, Arg: optest.Expr("key"), Param: param(kind), Slot: 0}}, Width: 1, StartSlot: -1, EndSlot: -1, RevisionSlot: -1,
	}
	var records []optest.Record
	for _, v := range values {
		records = append(records, optest.Record{Time: 1, Slots: []pipeline.Value{v}})
	}
	result, err := optest.Run(optest.Config{Ports: 2, New: func() pipeline.Operator {
		op := window.NewTumbling(c)
		if plant != nil {
			plant(op)
		}
		return op
	}}, records)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Ports[0]) == 1 {
		return result.Ports[0][0].Slots[0], result.Dead
	}
	return pipeline.Value{}, result.Dead
}

// param is the second argument in these tests.
func param(kind window.AggKind) float64 {
	switch kind {
	case window.Percentile:
		return 90
	case window.Collect:
		return 3
	}
	return 0
}

type require interface {
	Helper()
	Fatal(...any)
}

func TestAggregates(t *testing.T) {
	null, i, u, f, s := pipeline.Value{}, pipeline.IntValue, pipeline.UintValue, pipeline.FloatValue, pipeline.StringValue
	for _, c := range []struct {
		name   string
		kind   window.AggKind
		values []pipeline.Value
		want   pipeline.Value
	}{
		{"count() counts rows", window.CountRows, []pipeline.Value{null, i(1)}, i(2)},
		{"count(x) skips null", window.Count, []pipeline.Value{null, s("a")}, i(1)},
		{"sum of nothing", window.Sum, []pipeline.Value{null}, null},
		{"avg of nothing", window.Avg, []pipeline.Value{null}, null},
		{"min of nothing", window.Min, []pipeline.Value{null}, null},
		{"sum of integers beyond 2^53", window.Sum, []pipeline.Value{i(1<<53 + 1), i(1)}, i(1<<53 + 2)},
		{"sum above int64", window.Sum, []pipeline.Value{i(math.MaxInt64), i(1)}, u(1 << 63)},
		{"sum through overflow and back", window.Sum, []pipeline.Value{u(math.MaxUint64), i(10), i(-11)}, u(math.MaxUint64 - 1)},
		{"sum down to int64 min", window.Sum, []pipeline.Value{i(math.MinInt64 + 1), i(-1)}, i(math.MinInt64)},
		{"compensated floats", window.Sum, []pipeline.Value{f(1e16), f(1), f(-1e16)}, f(1)},
		{"integers and a float", window.Sum, []pipeline.Value{i(1), f(0.5)}, f(1.5)},
		{"a float that is whole stays a float", window.Sum, []pipeline.Value{i(1), f(1)}, f(2)},
		{"avg of integers", window.Avg, []pipeline.Value{i(1), i(2)}, f(1.5)},
		{"avg of large integers", window.Avg, []pipeline.Value{u(math.MaxUint64), u(math.MaxUint64)}, f(1 << 64)},
		{"min across kinds", window.Min, []pipeline.Value{f(1 << 53), i(1<<53 - 1), u(math.MaxUint64)}, i(1<<53 - 1)},
		{"max across kinds is exact", window.Max, []pipeline.Value{f(1 << 53), i(1<<53 + 1)}, i(1<<53 + 1)},
		{"max of uint and float", window.Max, []pipeline.Value{f(1 << 64), u(math.MaxUint64)}, f(1 << 64)},
		{"equal numbers: the first stays", window.Max, []pipeline.Value{i(1), f(1)}, i(1)},
		{"min of text", window.Min, []pipeline.Value{s("b"), s("a\x00"), s("a")}, s("a")},
		{"text is above numbers", window.Max, []pipeline.Value{s(""), i(9)}, s("")},
		{"first", window.First, []pipeline.Value{null, s("a"), i(2)}, s("a")},
		{"stddev of nothing", window.Stddev, []pipeline.Value{null}, null},
		{"stddev of one", window.Stddev, []pipeline.Value{i(4)}, f(0)},
		{"stddev_samp of one", window.StddevSamp, []pipeline.Value{i(4)}, null},
		{"stddev", window.Stddev, []pipeline.Value{i(2), i(4), i(4), i(4), i(5), i(5), i(7), f(9)}, f(2)},
		{"variance", window.Variance, []pipeline.Value{i(1), i(3), null}, f(1)},
		{"variance_samp", window.VarianceSamp, []pipeline.Value{i(1), i(3)}, f(2)},
		{"stddev_samp", window.StddevSamp, []pipeline.Value{i(1), i(3), i(5)}, f(2)},
		{"median of nothing", window.Median, []pipeline.Value{null}, null},
		{"median of an odd number", window.Median, []pipeline.Value{i(9), f(1.5), i(2)}, f(2)},
		{"median of an even number", window.Median, []pipeline.Value{i(9), i(1), i(2), i(4)}, f(3)},
		{"percentile between two", window.Percentile, []pipeline.Value{i(0), i(10)}, f(9)},
		{"percentile at one", window.Percentile, []pipeline.Value{i(0), i(1), i(2), i(3), i(4), i(5), i(6), i(7), i(8), i(9), i(10)}, f(9)},
		{"distinct of nothing", window.Distinct, []pipeline.Value{null}, i(0)},
		{"distinct", window.Distinct, []pipeline.Value{i(1), f(1), s("1"), null, s("a"), s("a")}, i(3)},
		{"collect of nothing", window.Collect, []pipeline.Value{null}, pipeline.JSONValue("[]")},
		{"collect", window.Collect, []pipeline.Value{s("a"), null, i(1), s("a"), i(9)}, pipeline.JSONValue(`["a",1,"a"]`)},
		{"increase", window.Increase, []pipeline.Value{i(5), i(9), i(2)}, i(6)},
		{"last", window.Last, []pipeline.Value{s("a"), i(2), s("c"), null}, s("c")},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, dead := aggregate(t, c.kind, nil, c.values...); got != c.want || len(dead) != 0 {
				t.Errorf("got %+v, dead letters %v, want %+v", got, dead, c.want)
			}
		})
	}
}

func TestResultThatDoesNotFitIsADeadLetter(t *testing.T) {
	for name, c := range map[string]struct {
		kind   window.AggKind
		values []pipeline.Value
	}{
		"sum above uint64":            {window.Sum, []pipeline.Value{pipeline.UintValue(math.MaxUint64), pipeline.IntValue(1)}},
		"sum below int64":             {window.Sum, []pipeline.Value{pipeline.IntValue(math.MinInt64), pipeline.IntValue(-1)}},
		"sum above float":             {window.Sum, []pipeline.Value{pipeline.FloatValue(math.MaxFloat64), pipeline.FloatValue(math.MaxFloat64)}},
		"variance above float":        {window.Variance, []pipeline.Value{pipeline.FloatValue(math.MaxFloat64), pipeline.FloatValue(-math.MaxFloat64)}},
		"squares that cannot be told": {window.Stddev, []pipeline.Value{pipeline.FloatValue(math.MaxFloat64), pipeline.FloatValue(-math.MaxFloat64), pipeline.FloatValue(1)}},
		"increase above uint64":       {window.Increase, []pipeline.Value{pipeline.UintValue(math.MaxUint64), pipeline.UintValue(math.MaxUint64 - 1), pipeline.IntValue(7)}},
		"avg above float":             {window.Avg, []pipeline.Value{pipeline.FloatValue(math.MaxFloat64), pipeline.FloatValue(math.MaxFloat64)}},
	} {
		t.Run(name, func(t *testing.T) {
			got, dead := aggregate(t, c.kind, nil, c.values...)
			if len(dead) != 1 || dead[0].Reason != "overflow" || !got.IsNull() {
				t.Errorf("got %v, dead letters %+v, want one of overflow", got, dead)
			}
		})
	}
}

func TestCollectedArrayIsBounded(t *testing.T) {
	long := pipeline.StringValue(strings.Repeat("x", 400_000))
	if got, dead := aggregate(t, window.Collect, nil, long, long, long); len(dead) != 1 || dead[0].Reason != "overflow" || !got.IsNull() {
		t.Errorf("got %d bytes, dead letters %d, want one of overflow", len(got.Str), len(dead))
	}
}

func TestArgumentThatCannotBeSummedIsADeadLetter(t *testing.T) {
	got, dead := aggregate(t, window.Sum, nil, pipeline.StringValue("nan"), pipeline.IntValue(4))
	if len(dead) != 1 || dead[0].Reason != "expression" || got != pipeline.IntValue(4) {
		t.Errorf("got %v, dead letters %+v, want 4 and one of expression", got, dead)
	}
}

// exactSum tells what a sum of integers must be: big integers, no wrap.
func exactSum(values []pipeline.Value) (want pipeline.Value, fits bool) {
	sum := new(big.Int)
	for _, v := range values {
		if v.Kind == pipeline.Int {
			sum.Add(sum, big.NewInt(v.Int()))
		} else {
			sum.Add(sum, new(big.Int).SetUint64(v.Uint()))
		}
	}
	switch {
	case sum.IsInt64():
		return pipeline.IntValue(sum.Int64()), true
	case sum.IsUint64():
		return pipeline.UintValue(sum.Uint64()), true
	}
	return pipeline.Value{}, false
}

func drawIntegers(t *rapid.T) []pipeline.Value {
	return rapid.SliceOfN(rapid.OneOf(
		rapid.Map(rapid.Int64(), pipeline.IntValue), rapid.Map(rapid.Uint64(), pipeline.UintValue),
		rapid.SampledFrom([]pipeline.Value{pipeline.IntValue(math.MaxInt64), pipeline.IntValue(math.MinInt64), pipeline.UintValue(math.MaxUint64)}),
	), 1, 8).Draw(t, "integers")
}

func TestIntegerSumsAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := drawIntegers(t)
		got, dead := aggregate(t, window.Sum, nil, values...)
		if want, fits := exactSum(values); got != want || fits != (len(dead) == 0) {
			t.Fatalf("got %v, dead letters %v, want %v, fits %v", got, dead, want, fits)
		}
		mean, _ := aggregate(t, window.Avg, nil, values...)
		sum := new(big.Int)
		for _, v := range values {
			x, _ := new(big.Int).SetString(text(v), 10)
			sum.Add(sum, x)
		}
		rounded, _ := new(big.Float).SetInt(sum).Float64()
		if want := rounded / float64(len(values)); mean.Float() != want {
			t.Fatalf("avg is %v, want %v", mean.Float(), want)
		}
	})
}

func text(v pipeline.Value) string {
	if v.Kind == pipeline.Int {
		return big.NewInt(v.Int()).String()
	}
	return new(big.Int).SetUint64(v.Uint()).String()
}
