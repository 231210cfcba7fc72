package pipeline

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// anyValue draws values whose keys are awkward: integers near the ends of their ranges, zeros in text.
func anyValue(t *rapid.T) Value {
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		return Value{}
	case 1:
		return BoolValue(rapid.Bool().Draw(t, "bool"))
	case 2:
		return IntValue(rapid.Int64().Draw(t, "int"))
	case 3:
		return UintValue(rapid.Uint64().Draw(t, "uint"))
	case 4:
		return FloatValue(rapid.Float64Range(-math.MaxFloat64, math.MaxFloat64).Draw(t, "float"))
	case 5:
		return BytesValue(string(rapid.SliceOf(rapid.SampledFrom([]byte{0, 1, 0xFF, 'a'})).Draw(t, "bytes")))
	}
	return StringValue(rapid.String().Draw(t, "text"))
}

func TestKeyValueIsTheInverseOfAppendKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var key []byte
		values := rapid.SliceOfN(rapid.Custom(anyValue), 1, 4).Draw(t, "values")
		for _, v := range values {
			key, _ = AppendKey(key, v)
		}
		out, rest := NewOut("", 1), key
		for _, want := range values {
			got, tail, err := out.KeyValue(rest)
			if err != nil {
				t.Fatal(err)
			}
			a, _ := AppendKey(nil, want)
			b, _ := AppendKey(nil, got)
			if !bytes.Equal(a, b) || !want.IsNumber() && want != got {
				t.Fatalf("%v came back as %v", want, got)
			}
			rest = tail
		}
		if len(rest) != 0 {
			t.Fatalf("%d bytes left", len(rest))
		}
	})
}

func TestKeyValueOfIntegersKeepsThem(t *testing.T) {
	for _, v := range []Value{
		IntValue(math.MinInt64), IntValue(math.MinInt64 + 1), IntValue(-(1<<53 + 1)), IntValue(-1), IntValue(0), IntValue(1<<53 + 1),
		IntValue(math.MaxInt64), UintValue(math.MaxUint64), UintValue(1 << 63),
	} {
		key, _ := AppendKey(nil, v)
		got, _, err := NewOut("", 1).KeyValue(key)
		if err != nil || got != v {
			t.Errorf("%v came back as %v, %v", v, got, err)
		}
	}
}

func FuzzKeyValue(f *testing.F) {
	f.Add([]byte{0x20, 'a', 0, 0xFF, 0, 1})
	f.Add([]byte{0x10, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, key []byte) {
		for out := NewOut("", 1); len(key) > 0; {
			_, rest, err := out.KeyValue(key)
			if err != nil {
				return
			}
			if len(rest) >= len(key) {
				t.Fatal("no progress")
			}
			key = rest
		}
	})
}
