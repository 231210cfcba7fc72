package codec

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

func TestAppendJSONGolden(t *testing.T) {
	f, i, s, j := pipeline.FloatValue, pipeline.IntValue, pipeline.StringValue, pipeline.JSONValue
	for _, c := range []struct {
		name  string
		cols  []Column
		whole int
		slots []pipeline.Value
		want  string
	}{
		{"empty", nil, -1, nil, `{}`},
		{"column order", []Column{{"b", 0}, {"a", 1}}, -1, []pipeline.Value{i(1), f(2.5)}, `{"b":1,"a":2.5}`},
		{"kinds", []Column{{"n", 0}, {"t", 1}, {"u", 2}, {"by", 3}, {"j", 4}}, -1,
			[]pipeline.Value{{}, pipeline.BoolValue(true), pipeline.UintValue(math.MaxUint64), pipeline.BytesValue("\x00\xff"), j("[1,\n 2]")},
			`{"n":null,"t":true,"u":18446744073709551615,"by":"AP8=","j":[1, 2]}`},
		{"escapes", []Column{{"a\"b", 0}}, -1, []pipeline.Value{s("é\u2028<&>\\\"\n\x01\x7f")}, `{"a\"b":"é` + "\u2028" + `<&>\\\"\n\u0001` + "\x7f" + `"}`},
		{"whole first", []Column{{"x", 1}}, 0, []pipeline.Value{j(`{ "id": 9007199254740993, "v":1.50 }`), i(3)}, `{"id": 9007199254740993, "v":1.50,"x":3}`},
		{"whole has the name", []Column{{"v", 1}, {"x", 1}}, 0, []pipeline.Value{j(`{"\u0076":{"x":1},"y":["x"]}`), i(3)}, `{"\u0076":{"x":1},"y":["x"],"x":3}`},
		{"whole empty object", []Column{{"x", 1}}, 0, []pipeline.Value{j(`{ }`), i(3)}, `{"x":3}`},
		{"whole of several lines", nil, 0, []pipeline.Value{j("{\r\n\"a\":1,\n\"b\":[\n2]}")}, `{"a":1,"b":[2]}`},
		{"whole array", []Column{{"x", 1}, {"value", 1}}, 0, []pipeline.Value{j(`[1,2]`), i(3)}, `{"value":[1,2],"x":3}`},
		{"whole missing", []Column{{"x", 1}}, 0, []pipeline.Value{{}, i(3)}, `{"x":3}`},
		{"floats", []Column{{"a", 0}, {"b", 1}, {"c", 2}, {"d", 3}, {"e", 4}, {"f", 5}, {"g", 6}}, -1,
			[]pipeline.Value{f(1), f(1e20), f(1e-7), f(math.Copysign(0, -1)), f(-9007199254740992), f(0.1), f(9007199254740991)},
			`{"a":1,"b":1e20,"c":1e-7,"d":0,"e":-9.007199254740992e15,"f":0.1,"g":9007199254740991}`},
	} {
		got, err := AppendJSON([]byte("x"), c.cols, c.whole, c.slots)
		if err != nil || string(got) != "x"+c.want {
			t.Errorf("%s: %s, %v\nwant %s", c.name, got, err, c.want)
		}
		if !json.Valid(got[1:]) {
			t.Errorf("%s: not valid", c.name)
		}
	}
}

func TestAppendJSONErrors(t *testing.T) {
	for _, v := range []pipeline.Value{pipeline.ErrorValue("division by zero"), pipeline.StringValue("\xff"),
		{Kind: pipeline.Float, Num: math.Float64bits(math.NaN())}} {
		dst := []byte("kept")
		got, err := AppendJSON(dst, []Column{{"a", 0}}, -1, []pipeline.Value{v})
		if err == nil || !strings.Contains(err.Error(), "column a") || string(got) != "kept" {
			t.Errorf("%v: %q, %v", v, got, err)
		}
	}
}

// TestAppendJSONManyColumns: names that the document has are left out beyond the 128th column too.
func TestAppendJSONManyColumns(t *testing.T) {
	var cols []Column
	for i := range 200 {
		cols = append(cols, Column{Name: strings.Repeat("c", i+1), Slot: 1})
	}
	whole := `{"` + cols[150].Name + `":0,"` + cols[3].Name + `":0}`
	got, err := AppendJSON(nil, cols, 0, []pipeline.Value{pipeline.JSONValue(whole), pipeline.IntValue(7)})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(got), ":7"); n != 198 {
		t.Errorf("%d columns, want 198", n)
	}
}

func anyValue() *rapid.Generator[pipeline.Value] {
	return rapid.Custom(func(t *rapid.T) pipeline.Value {
		switch rapid.IntRange(0, 5).Draw(t, "kind") {
		case 0:
			return pipeline.IntValue(rapid.Int64().Draw(t, "int"))
		case 1:
			return pipeline.UintValue(rapid.Uint64().Draw(t, "uint"))
		case 2:
			f := math.Float64frombits(rapid.Uint64().Draw(t, "bits"))
			if math.IsNaN(f) || math.IsInf(f, 0) {
				f = 0
			}
			return pipeline.FloatValue(f)
		case 3:
			return pipeline.StringValue(rapid.String().Draw(t, "text"))
		case 4:
			return pipeline.BoolValue(rapid.Bool().Draw(t, "bool"))
		}
		return pipeline.Value{}
	})
}

// TestAppendJSONRoundTripProperty: what is written reads back as the same values, and its whole is written again as it was.
func TestAppendJSONRoundTripProperty(t *testing.T) {
	names := []string{"a", "b\"\n", "ü", "$x"}
	var cols []Column
	var fields []Field
	for i, n := range names {
		cols = append(cols, Column{n, i})
		fields = append(fields, Field{Path: pipeline.Path{{Name: n}}, Slot: i})
	}
	d := NewJSON(fields, len(names), Default())
	rapid.Check(t, func(rt *rapid.T) {
		slots := rapid.SliceOfN(anyValue(), len(names), len(names)).Draw(rt, "slots")
		text, err := AppendJSON(nil, cols, -1, slots)
		if err != nil {
			rt.Fatal(err)
		}
		back := make([]pipeline.Value, len(names)+1)
		if err := d.Decode(text, back); err != nil {
			rt.Fatalf("%s: %v", text, err)
		}
		for i, v := range slots {
			a, _ := pipeline.AppendKey(nil, v)
			b, _ := pipeline.AppendKey(nil, back[i])
			if string(a) != string(b) {
				rt.Fatalf("%s: %v came back as %v", text, v, back[i])
			}
		}
		again, err := AppendJSON(nil, cols, len(names), back)
		if err != nil || string(again) != string(text) {
			rt.Fatalf("%s became %s, %v", text, again, err)
		}
	})
}
