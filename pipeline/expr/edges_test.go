package expr

import (
	"math"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// edgeNumbers are where integers and floats meet, and where their ranges end.
func edgeNumbers() []pipeline.Value {
	var all []pipeline.Value
	for _, i := range edgeInts {
		all = append(all, pipeline.IntValue(i), pipeline.IntValue(-i))
	}
	for _, u := range []uint64{1 << 63, 1<<63 + 1, 1<<63 + 1024, 1<<63 + 2048, math.MaxUint64, math.MaxUint64 - 2048} {
		all = append(all, pipeline.UintValue(u))
	}
	for _, f := range edgeFloats {
		all = append(all, pipeline.FloatValue(f), pipeline.FloatValue(-f), pipeline.FloatValue(math.Nextafter(f, 0)))
	}
	return append(all, pipeline.FloatValue(9223372036854777856), pipeline.FloatValue(0.5), pipeline.FloatValue(-0.5))
}

// TestEdgesEqualReference tries every operator on every pair of edge numbers in each shape that is compiled in its own way:
// slot and slot, slot and constant, constant and slot.
func TestEdgesEqualReference(t *testing.T) {
	env := testEnv{{"a", pipeline.Null}, {"b", pipeline.Null}}
	numbers := edgeNumbers()
	for _, op := range []string{"==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"} {
		both := mustCompile(t, "a "+op+" b", env)
		for _, y := range numbers {
			var text strings.Builder
			writeConst(&text, y)
			right, left := mustCompile(t, "a "+op+" ("+text.String()+")", env), mustCompile(t, "("+text.String()+") "+op+" a", env)
			for _, x := range numbers {
				want := referenceBinary(op, x, y)
				if got := both.Eval([]pipeline.Value{x, y}); !sameValue(got, want) {
					t.Errorf("%v %s %v: %v, want %v", x, op, y, got, want)
				}
				if got := right.Eval([]pipeline.Value{x, {}}); !sameValue(got, want) {
					t.Errorf("%v %s constant %v: %v, want %v", x, op, y, got, want)
				}
				if got, want := left.Eval([]pipeline.Value{x, {}}), referenceBinary(op, y, x); !sameValue(got, want) {
					t.Errorf("constant %v %s %v: %v, want %v", y, op, x, got, want)
				}
			}
		}
	}
}

func mustCompile(t *testing.T, src string, env Env) *Program {
	t.Helper()
	p, err := Compile(src, env)
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	return p
}

func referenceBinary(op string, a, b pipeline.Value) pipeline.Value {
	if strings.ContainsAny(op, "=<>") {
		return referenceCompare(op, a, b)
	}
	return referenceArithmetic(op, a, b)
}

// TestConversionEdges: int and float at the ends of their ranges.
func TestConversionEdges(t *testing.T) {
	env := testEnv{{"a", pipeline.Null}}
	i, u, f := pipeline.IntValue, pipeline.UintValue, pipeline.FloatValue
	failed := pipeline.ErrorValue("")
	for _, c := range []struct {
		src  string
		a    pipeline.Value
		want pipeline.Value
	}{
		{"int(a)", f(-1 << 63), i(math.MinInt64)},
		{"int(a)", f(math.Nextafter(-1<<63, -math.MaxFloat64)), failed},
		{"int(a)", f(1 << 63), u(1 << 63)},
		{"int(a)", f(1 << 64), failed},
		{"int(a)", f(math.Nextafter(1<<64, 0)), u(1<<64 - 2048)},
		{"int(a)", f(-0.9), i(0)},
		{"int(a)", pipeline.StringValue("18446744073709551615"), u(math.MaxUint64)},
		{"int(a)", pipeline.StringValue("1e3"), i(1000)},
		{"float(a)", u(math.MaxUint64), f(1 << 64)},
		{"abs(a)", i(math.MinInt64), u(1 << 63)},
		{"-a", u(1 << 63), i(math.MinInt64)},
		{"-a", u(1<<63 + 1), failed},
		{"-a", i(math.MinInt64), u(1 << 63)},
		{"div(a, -1)", i(math.MinInt64), u(1 << 63)},
		{"a % -1", i(math.MinInt64), i(0)},
		{"round(a)", f(-0.4), f(0)},
		{"round(a, 15)", f(math.MaxFloat64), f(math.MaxFloat64)},
		{"round(a, 1)", f(0.25), f(0.2)},
		{"round(a, 2)", f(1.005), f(1)}, // the float lies below 1.005
		{"pow(a, 0.5)", f(-2), failed},
		{"string(a)", f(1e20), pipeline.StringValue("1e20")},
		{"len(a)", pipeline.BytesValue("\xff\xff"), i(2)},
		{"string(a)", pipeline.BytesValue("x"), failed},
		{"bool(a)", i(1), failed},
		{"isNull(a)", pipeline.ErrorValue("x"), failed},
		{"a ?? 1", pipeline.ErrorValue("x"), failed},
	} {
		if got := mustCompile(t, c.src, env).Eval([]pipeline.Value{c.a}); !sameValue(got, c.want) {
			t.Errorf("%s of %v: %v, want %v", c.src, c.a, got, c.want)
		}
	}
}

// TestNoFusedMultiplyAdd: x*y+z is rounded twice, on arm64 as well, which would fuse it by itself.
func TestNoFusedMultiplyAdd(t *testing.T) {
	env := testEnv{{"x", pipeline.Float}, {"y", pipeline.Float}, {"z", pipeline.Float}}
	x := 1 + 1.0/(1<<30)
	slots := []pipeline.Value{pipeline.FloatValue(x), pipeline.FloatValue(x), pipeline.FloatValue(-1 - 1.0/(1<<29))}
	if got := mustCompile(t, "x * y + z", env).Eval(slots); got.Float() != 0 {
		t.Errorf("x*y+z is %g, want 0: the product was not rounded", got.Float())
	}
}
