package codec

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestCBORValues: {"a": item} in hex, the field a and the whole as JSON.
func TestCBORValues(t *testing.T) {
	i, f, s := pipeline.IntValue, pipeline.FloatValue, pipeline.StringValue
	for _, c := range []struct {
		item  string
		kind  pipeline.Kind
		want  pipeline.Value
		whole string
	}{
		{"00", 0, i(0), "0"},
		{"1b ffffffffffffffff", 0, pipeline.UintValue(1<<64 - 1), "18446744073709551615"},
		{"1b ffffffffffffffff", pipeline.Int, pipeline.UintValue(1<<64 - 1), "18446744073709551615"},
		{"3b 7fffffffffffffff", 0, i(-1 << 63), "-9223372036854775808"},
		{"c2 48 ffffffffffffffff", 0, pipeline.UintValue(1<<64 - 1), "18446744073709551615"},
		{"c2 4a 0000 ffffffffffffffff", 0, pipeline.UintValue(1<<64 - 1), "18446744073709551615"},
		{"c3 41 00", 0, i(-1), "-1"},
		{"c2 40", 0, i(0), "0"},
		{"f9 3e00", 0, f(1.5), "1.5"},
		{"fa 3dcccccd", 0, f(0.10000000149011612), "0.10000000149011612"},
		{"fb 3fb999999999999a", 0, f(0.1), "0.1"},
		{"fb 408f400000000000", pipeline.Int, i(1000), "1000"},
		{"05", pipeline.Float, f(5), "5"},
		{"05", pipeline.Uint, i(5), "5"},
		{"f4", 0, pipeline.BoolValue(false), "false"},
		{"f6", pipeline.Int, pipeline.Value{}, "null"},
		{"f7", 0, pipeline.Value{}, "null"},
		{"62 c3a9", 0, s("é"), `"é"`},
		{"7f 61 61 61 62 ff", 0, s("ab"), `"ab"`},
		{"42 0001", 0, pipeline.BytesValue("\x00\x01"), `"AAE="`},
		{"5f 41 00 41 01 ff", pipeline.Bytes, pipeline.BytesValue("\x00\x01"), `"AAE="`},
		{"83 01 02 80", 0, pipeline.JSONValue("[1,2,[]]"), "[1,2,[]]"},
		{"9f 01 02 ff", 0, pipeline.JSONValue("[1,2]"), "[1,2]"},
		{"bf 61 62 01 ff", 0, pipeline.JSONValue(`{"b":1}`), `{"b":1}`},
		{"a2 01 02 20 03", 0, pipeline.JSONValue(`{"1":2,"-1":3}`), `{"1":2,"-1":3}`},
		{"c1 1a 514b67b0", 0, i(1363896240), "1363896240"},
		{"c0 74 323031332d30332d32315432303a30343a30305a", 0, s("2013-03-21T20:04:00Z"), `"2013-03-21T20:04:00Z"`},
	} {
		slots := make([]pipeline.Value, 2)
		d := NewCBOR([]Field{field(t, "a", 0, c.kind)}, 1, Default())
		if err := d.Decode(unhex(t, "a1 61 61"+c.item), slots); err != nil {
			t.Errorf("%s: %v", c.item, err)
			continue
		}
		if slots[0] != c.want || slots[1].Str != `{"a":`+c.whole+"}" {
			t.Errorf("%s: %v and %s, want %v and %s", c.item, slots[0], slots[1].Str, c.want, c.whole)
		}
	}
}

func TestCBORRefusals(t *testing.T) {
	for _, c := range []struct {
		doc    string
		kind   pipeline.Kind
		reason string
	}{
		{"", 0, "EOF"},
		{"a1 61 61", 0, "EOF"},
		{"00 00", 0, "behind the end"},
		{"a1 61 61 c2 49 010000000000000000", 0, "integer out of range"},
		{"a1 61 61 3b ffffffffffffffff", 0, "integer out of range"},
		{"a1 61 61 c3 48 ffffffffffffffff", 0, "integer out of range"},
		{"a1 61 61 f9 7e00", 0, "not finite"},
		{"a1 61 61 fb 7ff0000000000000", 0, "not finite"},
		{"a1 61 61 f0", 0, "no meaning"},
		{"a1 61 61 61 ff", 0, "UTF-8"},
		{"a1 61 62 61 ff", 0, "UTF-8"},
		{"a1 61 ff 01", 0, "UTF-8"},
		{"a2 61 61 01 61 61 02", 0, "twice"},
		{"a1 81 01 02", 0, "want a key"},
		{"a1 61 61 01", pipeline.String, "declared string"},
		{"a1 61 61 20", pipeline.Uint, "negative"},
		{"a1 61 61 f9 3e00", pipeline.Int, "declared int"},
		{"a1 61 61 80", pipeline.Int, "found an array"},
		{"a1 61 61 9b ffffffffffffffff", 0, "too large"},
		{strings.Repeat("81", 70) + "00", 0, "nested level"},
	} {
		slots := make([]pipeline.Value, 2)
		err := NewCBOR([]Field{field(t, "a", 0, c.kind)}, -1, Default()).Decode(unhex(t, c.doc), slots)
		if err == nil || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%s: %v, want %q", c.doc, err, c.reason)
		}
	}
}

// TestCBORNestedPaths reads the same fields from a document in CBOR and in JSON.
func TestCBORNestedPaths(t *testing.T) {
	doc := `{"ts":1767225600123,"a":{"b":[1,{"c":"x"}]},"temp":21.5,"ok":true}`
	fields := []Field{field(t, "ts", 0, 0), field(t, "a.b[1].c", 1, 0), field(t, "temp", 2, 0), field(t, "ok", 3, 0), field(t, "a.b[7]", 4, 0)}
	one, two := make([]pipeline.Value, 5), make([]pipeline.Value, 5)
	if err := NewJSON(fields, -1, Default()).Decode([]byte(doc), one); err != nil {
		t.Fatal(err)
	}
	if err := NewCBOR(fields, -1, Default()).Decode(cborOf(t, doc), two); err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if one[i] != two[i] {
			t.Errorf("%s: JSON %v, CBOR %v", fields[i].Path, one[i], two[i])
		}
	}
}

// TestCBORCutAndFlipped: a cut item is refused, a damaged one does not panic.
func TestCBORCutAndFlipped(t *testing.T) {
	doc := cborOf(t, `{"ts":1767225600123,"a":{"b":[1,{"c":"x"}]},"temp":21.5,"big":[true,null,"é"]}`)
	d := NewCBOR([]Field{field(t, "a.b[1].c", 0, 0), field(t, "temp", 1, 0)}, 2, Default())
	slots := make([]pipeline.Value, 3)
	for i := range doc {
		if d.Decode(doc[:i], slots) == nil {
			t.Errorf("cut at %d is accepted", i)
		}
		for bit := range 8 {
			b := append([]byte(nil), doc...)
			b[i] ^= 1 << bit
			_ = d.Decode(b, slots)
		}
	}
}

// TestCBORIntegersProperty: every 64-bit integer that the library encodes comes back exact.
func TestCBORIntegersProperty(t *testing.T) {
	d := NewCBOR([]Field{field(t, "a", 0, 0)}, -1, Default())
	slots := make([]pipeline.Value, 1)
	rapid.Check(t, func(rt *rapid.T) {
		i, u := rapid.Int64().Draw(rt, "i"), rapid.Uint64().Draw(rt, "u")
		for _, c := range []struct {
			v    any
			want pipeline.Value
		}{{i, pipeline.IntValue(i)}, {u, pipeline.UintValue(u)}} {
			b, err := cbor.Marshal(map[string]any{"a": c.v})
			if err != nil {
				rt.Fatal(err)
			}
			if err := d.Decode(b, slots); err != nil || slots[0] != c.want {
				rt.Fatalf("%v: %v, %v", c.v, slots[0], err)
			}
		}
	})
}

// TestCBORLengthBeyond31Bits is what 32-bit boards rely on: the library alone accepts a length of 2^32 as 0.
func TestCBORLengthBeyond31Bits(t *testing.T) {
	for doc, want := range map[string]int{
		"9b 0000000100000000":          0,
		"82 01 bb 0000000100000001 00": 2,
		"61 61 5b 8000000000000000":    2,
		"7a 80000000":                  0,
		"1b ffffffffffffffff":          -1,
		"82 61 9b 80":                  -1, // 9b inside of a text
		"9f fb 9b9b9b9b9b9b9b9b ff":    -1,
		"c2 48 bbbbbbbbbbbbbbbb":       -1,
		"9b 00":                        -1,
		"":                             -1,
	} {
		at, found := lengthBeyond31Bits(unhex(t, doc))
		if found != (want >= 0) || found && at != want {
			t.Errorf("%s: %d, %v, want %d", doc, at, found, want)
		}
	}
	if err := NewCBOR(nil, -1, Default()).Decode(unhex(t, "9b 0000000100000000"), nil); err == nil {
		t.Error("an array of 2^32 elements without any is accepted")
	}
}
