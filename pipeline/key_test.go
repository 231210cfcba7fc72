package pipeline

import (
	"bytes"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func number(t *rapid.T, name string) (Value, *big.Float) {
	switch rapid.IntRange(0, 2).Draw(t, name+"-kind") {
	case 0:
		i := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-9007199254740996, -9007199254740988), rapid.Int64Range(9007199254740988, 9007199254740996)).Draw(t, name)
		return IntValue(i), new(big.Float).SetPrec(200).SetInt64(i)
	case 1:
		u := rapid.Uint64Range(math.MaxInt64-5, math.MaxUint64).Draw(t, name)
		return UintValue(u), new(big.Float).SetPrec(200).SetUint64(u)
	}
	f := rapid.OneOf(rapid.Float64Range(-1e300, 1e300), rapid.Map(rapid.Int64(), func(i int64) float64 { return float64(i) })).Draw(t, name)
	return FloatValue(f), new(big.Float).SetPrec(200).SetFloat64(f)
}

func TestNumberKeysCompareAsNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, x := number(t, "a")
		b, y := number(t, "b")
		ka, _ := AppendKey(nil, a)
		kb, _ := AppendKey(nil, b)
		if bytes.Compare(ka, kb) != x.Cmp(y) {
			t.Fatalf("%v %v: keys %x %x compare %d, numbers %d", a, b, ka, kb, bytes.Compare(ka, kb), x.Cmp(y))
		}
	})
}

func TestEqualNumbersHaveOneKey(t *testing.T) {
	for _, same := range [][]Value{
		{IntValue(1), FloatValue(1)},
		{IntValue(0), FloatValue(0), FloatValue(math.Copysign(0, -1))},
		{IntValue(math.MinInt64), FloatValue(math.MinInt64)},
		{UintValue(1 << 63), FloatValue(1 << 63)},
	} {
		first, _ := AppendKey(nil, same[0])
		for _, v := range same[1:] {
			if k, _ := AppendKey(nil, v); !bytes.Equal(first, k) {
				t.Errorf("%v: key %x, want %x", v, k, first)
			}
		}
	}
	a, _ := AppendKey(nil, IntValue(1<<53))
	b, _ := AppendKey(nil, IntValue(1<<53+1))
	if bytes.Equal(a, b) {
		t.Error("2^53 and 2^53+1 share a key")
	}
}

func TestCompositeKeysDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune{0, 1, 'a', 0xFF}))
		a, b, c, d := text.Draw(t, "a"), text.Draw(t, "b"), text.Draw(t, "c"), text.Draw(t, "d")
		x, _ := AppendKey(nil, StringValue(a))
		x, _ = AppendKey(x, StringValue(b))
		y, _ := AppendKey(nil, StringValue(c))
		y, _ = AppendKey(y, StringValue(d))
		if bytes.Equal(x, y) != (a == c && b == d) {
			t.Fatalf("(%q,%q) and (%q,%q): %x %x", a, b, c, d, x, y)
		}
	})
}
