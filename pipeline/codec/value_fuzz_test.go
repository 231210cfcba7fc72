package codec

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

var textKinds = []pipeline.Kind{pipeline.Null, pipeline.Bool, pipeline.Int, pipeline.Uint, pipeline.Float, pipeline.String, pipeline.Bytes}

// FuzzText: text comes out as it came in; what is declared a number is one of JSON's or refused; bytes are never refused.
func FuzzText(f *testing.F) {
	for _, s := range []string{"", "21.5", " -7\n", "true", "9223372036854775808", "1e400", "nan", "+5", "\xff", "a\u0000b", "\u2028"} {
		for i := range textKinds {
			f.Add([]byte(s), i)
		}
	}
	f.Fuzz(func(t *testing.T, payload []byte, kind int) {
		if kind < 0 || kind >= len(textKinds) {
			return
		}
		field := Field{Path: pipeline.Path{{Name: ValueField}}, Kind: textKinds[kind]}
		slots := make([]pipeline.Value, 2)
		err := NewText([]Field{field}, 1, Default()).Decode(payload, slots)
		switch {
		case err != nil && utf8.Valid(payload) && (field.Kind == pipeline.Null || field.Kind == pipeline.String):
			t.Fatalf("%q is refused: %v", payload, err)
		case err == nil && slots[0].Kind == pipeline.String && slots[0].Str != string(payload):
			t.Fatalf("%q comes out as %q", payload, slots[0].Str)
		case err == nil && !json.Valid([]byte(slots[1].Str)):
			t.Fatalf("%q as a document is %q", payload, slots[1].Str)
		case err == nil && field.Kind == pipeline.Float && !json.Valid([]byte(strings.TrimSpace(string(payload)))):
			t.Fatalf("%q is taken for a number", payload)
		}
		if field.Kind = pipeline.Bytes; NewBytes([]Field{field}, 1, Default()).Decode(payload, slots) != nil || slots[0].Str != string(payload) {
			t.Fatalf("%q as bytes comes out as %q", payload, slots[0].Str)
		}
	})
}

// FuzzParseNumber compares with strconv and math: integers exact or refused, floats the nearest, finite.
func FuzzParseNumber(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add(s)
	}
	for _, s := range []string{"0", "-0", "1e2", "18446744073709551615", "18446744073709551616", "-9223372036854775809", "5e-324", "2e-324", "1.0", "1e-1", "100e-2", "01", "0x1", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, kind := range []pipeline.Kind{pipeline.Null, pipeline.Int, pipeline.Uint, pipeline.Float} {
			v, reason := ParseNumber(text, kind)
			if reason != "" {
				continue
			}
			want, err := strconv.ParseFloat(text, 64)
			if err != nil || math.IsInf(want, 0) || !json.Valid([]byte(text)) {
				t.Fatalf("%q is taken for %v; it is none: %v", text, v, err)
			}
			if got, ok := v.AsFloat(); !ok || got != want {
				t.Fatalf("%q as %v is %v, want %v", text, kind, got, want)
			}
			if i, err := strconv.ParseInt(text, 10, 64); err == nil && kind == pipeline.Int && v.Int() != i {
				t.Fatalf("%q is %d", text, v.Int())
			}
			if u, err := strconv.ParseUint(text, 10, 64); err == nil && kind == pipeline.Uint && v.Num != u {
				t.Fatalf("%q is %d", text, v.Num)
			}
		}
	})
}

// FuzzElements: the elements of a document's array are those that encoding/json finds.
func FuzzElements(f *testing.F) {
	for _, s := range append([]string{`[]`, `[1,"a",[2,{"b":"],["}],null]`, ` [ 1 , 2 ] `, `["\""]`, `[{}]`}, fuzzSeeds...) {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, doc string) {
		slots := make([]pipeline.Value, 1)
		if NewJSON(nil, 0, Default()).Decode([]byte(doc), slots) != nil {
			return
		}
		elements, ok := Elements(slots[0])
		if !ok {
			return
		}
		var want []json.RawMessage
		if err := json.Unmarshal([]byte(doc), &want); err != nil {
			return // encoding/json takes less: bytes of a mark at the begin
		}
		n := 0
		for i, text := range elements {
			if i != n || n >= len(want) || !sameDocument(text, string(want[n])) {
				t.Fatalf("element %d of %q is %q", n, doc, text)
			}
			if err := DecodeElement(NewJSON(nil, 0, Default()), text, slots); err != nil {
				t.Fatalf("element %d of %q: %v", n, doc, err)
			}
			n++
		}
		if n != len(want) {
			t.Fatalf("%d elements in %q, want %d", n, doc, len(want))
		}
	})
}

func sameDocument(a, b string) bool { return strings.TrimSpace(a) == strings.TrimSpace(b) }

// FuzzAppendValue: what is written is JSON, and reading it gives the value again.
func FuzzAppendValue(f *testing.F) {
	f.Add(int(pipeline.Float), uint64(0x8000000000000000), "")
	f.Add(int(pipeline.String), uint64(0), "\u2028\xff\"\\\x00é")
	f.Add(int(pipeline.Uint), uint64(math.MaxUint64), "")
	f.Fuzz(func(t *testing.T, kind int, num uint64, text string) {
		var v pipeline.Value
		switch pipeline.Kind(kind) {
		case pipeline.Int:
			v = pipeline.IntValue(int64(num))
		case pipeline.Uint:
			v = pipeline.UintValue(num)
		case pipeline.Float:
			v = pipeline.FloatValue(math.Float64frombits(num))
		case pipeline.Bool:
			v = pipeline.BoolValue(num%2 == 1)
		case pipeline.String:
			if v = pipeline.StringValue(text); !utf8.ValidString(text) {
				return // nothing decodes to such text
			}
		default:
			return
		}
		out, err := AppendValue(nil, v)
		if err != nil {
			return
		}
		slots := make([]pipeline.Value, 1)
		field := Field{Path: pipeline.Path{{Name: "v"}}}
		if err := NewJSON([]Field{field}, -1, Default()).Decode([]byte(`{"v":`+string(out)+`}`), slots); err != nil {
			t.Fatalf("%v is written as %q: %v", v, out, err)
		}
		got, ok := slots[0].AsFloat()
		want, number := v.AsFloat()
		if number != ok || number && got != want || v.Kind == pipeline.String && slots[0].Str != text {
			t.Fatalf("%v is written as %q and read as %v", v, out, slots[0])
		}
	})
}
