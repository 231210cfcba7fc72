package counter_test

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/counter"
)

// TestFieldCase25: a restart, a 16-bit register that wraps, and a restart that looks like a wrap.
func TestFieldCase25(t *testing.T) {
	u16 := counter.Rule{Last: 65535, StepMax: 1000}
	for name, c := range map[string]struct {
		rule    counter.Rule
		samples []int64
		want    []int64
		what    []counter.What
	}{
		"reset":    {counter.Rule{}, []int64{100, 110, 0, 10}, []int64{10, 0, 10}, []counter.What{counter.Rise, counter.Reset, counter.Rise}},
		"u16":      {u16, []int64{65500, 65530, 4, 20}, []int64{30, 10, 16}, []counter.What{counter.Rise, counter.Wrap, counter.Rise}},
		"u16b":     {u16, []int64{65535, 0, 3}, []int64{1, 3}, []counter.What{counter.Wrap, counter.Rise}},
		"u16reset": {u16, []int64{65500, 200, 210}, []int64{236, 10}, []counter.What{counter.Wrap, counter.Rise}},
		"too far":  {u16, []int64{60000, 200}, []int64{200}, []counter.What{counter.Reset}},
		"above it": {u16, []int64{70000, 3}, []int64{3}, []counter.What{counter.Reset}},
	} {
		for i := 1; i < len(c.samples); i++ {
			got, what := c.rule.Step(pipeline.IntValue(c.samples[i-1]), pipeline.IntValue(c.samples[i]))
			if got != pipeline.IntValue(c.want[i-1]) || what != c.what[i-1] {
				t.Errorf("%s, step %d: %v, %d, want %d, %d", name, i, got, what, c.want[i-1], c.what[i-1])
			}
			f, what := c.rule.Step(pipeline.FloatValue(float64(c.samples[i-1])), pipeline.IntValue(c.samples[i]))
			if c.what[i-1] != counter.Wrap && (f != pipeline.FloatValue(float64(c.want[i-1])) || what != c.what[i-1]) {
				t.Errorf("%s, step %d of floats: %v, %d", name, i, f, what)
			}
		}
	}
}

func TestValid(t *testing.T) {
	for v, want := range map[pipeline.Value]bool{
		{}: false, pipeline.IntValue(0): true, pipeline.IntValue(-1): false, pipeline.UintValue(1 << 63): true, pipeline.FloatValue(-0.5): false,
		pipeline.FloatValue(0.5): true, pipeline.StringValue("7"): false, pipeline.BoolValue(true): false,
	} {
		if counter.Valid(v) != want {
			t.Errorf("%+v: valid is %v", v, !want)
		}
	}
}

// TestStepsOfIntegersAreExact up to 2^64, and never negative.
func TestStepsOfIntegersAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := counter.Rule{Last: rapid.SampledFrom([]uint64{0, 1, 65535, 1<<32 - 1, 1<<64 - 1}).Draw(t, "last"), StepMax: rapid.Uint64().Draw(t, "step_max")}
		p, c := rapid.Uint64().Draw(t, "prev"), rapid.Uint64().Draw(t, "cur")
		want := new(big.Int).SetUint64(c)
		if c >= p {
			want.Sub(want, new(big.Int).SetUint64(p))
		} else {
			over := new(big.Int).SetUint64(r.Last)
			over.Sub(over, new(big.Int).SetUint64(p)).Add(over, want).Add(over, big.NewInt(1))
			if r.Last > 0 && p <= r.Last && over.Cmp(new(big.Int).SetUint64(r.StepMax)) <= 0 {
				want = over
			}
		}
		got, _ := r.Step(pipeline.UintValue(p), pipeline.UintValue(c))
		if got != pipeline.UintValue(want.Uint64()) {
			t.Fatalf("%d to %d is %v, want %s", p, c, got, want)
		}
	})
}
