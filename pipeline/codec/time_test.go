package codec

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

func TestParseTime(t *testing.T) {
	i, f, s := pipeline.IntValue, pipeline.FloatValue, pipeline.StringValue
	for _, c := range []struct {
		v    pipeline.Value
		unit Unit
		want int64
	}{
		{i(1767225600), Seconds, 1767225600000},
		{f(1767225600.123), Seconds, 1767225600123},
		{f(1767225600.1239), Seconds, 1767225600123},
		{s("1767225600.123"), Seconds, 1767225600123},
		{i(-1), Microseconds, -1},
		{i(-1000), Microseconds, -1},
		{i(-1001), Microseconds, -2},
		{i(1767225600123999999), Nanoseconds, 1767225600123},
		{i(math.MinInt64), Nanoseconds, -9223372036855},
		{pipeline.UintValue(math.MaxUint64), Nanoseconds, 18446744073709},
		{f(-0.0005), Seconds, -1},
		{s("-0.0005"), Seconds, -1},
		{s("-1.5"), Milliseconds, -2},
		{s("1767225600123"), Milliseconds, 1767225600123},
		{s("1767225600123456789"), Nanoseconds, 1767225600123},
		{s("1.767225600123e12"), Milliseconds, 1767225600123},
		{s("0.00"), Seconds, 0},
		{f(1.767225600123e18), Nanoseconds, 1767225600123},
		{s("2026-01-01T00:00:00Z"), RFC3339, 1767225600000},
		{s("2026-01-01T01:00:00.123999+01:00"), RFC3339, 1767225600123},
		{s("1969-12-31T23:59:59.9999Z"), RFC3339, -1},
	} {
		got, err := ParseTime(c.v, c.unit)
		if err != nil || got != c.want {
			t.Errorf("%v %s: %d, %v, want %d", c.v, c.unit, got, err, c.want)
		}
	}
	for _, c := range []struct {
		v    pipeline.Value
		unit Unit
	}{
		{pipeline.Value{}, Milliseconds}, {pipeline.BoolValue(true), Seconds}, {s("now"), Milliseconds}, {s(""), Milliseconds}, {s(" 1"), Seconds},
		{i(math.MaxInt64), Seconds}, {pipeline.UintValue(math.MaxUint64), Milliseconds}, {f(1e300), Nanoseconds}, {s("1e99999999999"), Seconds},
		{i(5), RFC3339}, {s("2026-01-01"), RFC3339}, {s("2026-01-01T00:00:00Z"), Milliseconds}, {i(1), Unit(0)}, {i(1), Unit(9)},
		{pipeline.JSONValue("5"), Milliseconds},
	} {
		if got, err := ParseTime(c.v, c.unit); err == nil {
			t.Errorf("%v %s is accepted as %d", c.v, c.unit, got)
		} else if !strings.HasPrefix(err.Error(), "parse time: ") {
			t.Error(err)
		}
	}
}

func TestParseUnit(t *testing.T) {
	for _, name := range Units() {
		if u, err := ParseUnit(name); err != nil || u.String() != name {
			t.Errorf("%s: %v, %v", name, u, err)
		}
	}
	if _, err := ParseUnit("min"); err == nil {
		t.Error("min is accepted")
	}
}

// TestParseTimeExactProperty compares with rational arithmetic.
func TestParseTimeExactProperty(t *testing.T) {
	scale := map[Unit]*big.Rat{Seconds: big.NewRat(1000, 1), Milliseconds: big.NewRat(1, 1), Microseconds: big.NewRat(1, 1000), Nanoseconds: big.NewRat(1, 1000000)}
	rapid.Check(t, func(rt *rapid.T) {
		unit := Unit(rapid.IntRange(1, 4).Draw(rt, "unit"))
		v := rapid.SampledFrom([]func() pipeline.Value{
			func() pipeline.Value { return pipeline.IntValue(rapid.Int64().Draw(rt, "int")) },
			func() pipeline.Value { return pipeline.UintValue(rapid.Uint64().Draw(rt, "uint")) },
			func() pipeline.Value {
				return pipeline.StringValue(rapid.StringMatching(`-?(0|[1-9][0-9]{0,24})(\.[0-9]{1,25})?(e-?[0-9]{1,2})?`).Draw(rt, "text"))
			},
		}).Draw(rt, "make")()
		text := v.Str
		if v.Kind != pipeline.String {
			b, _ := AppendValue(nil, v)
			text = string(b)
		}
		exact, _ := new(big.Rat).SetString(text)
		exact.Mul(exact, scale[unit])
		floor := new(big.Int).Div(exact.Num(), exact.Denom()) // Euclidean, the denominator is positive: floor
		got, err := ParseTime(v, unit)
		if floor.IsInt64() != (err == nil) || err == nil && got != floor.Int64() {
			rt.Fatalf("%s %s: %d, %v, want %s", text, unit, got, err, floor)
		}
	})
}
