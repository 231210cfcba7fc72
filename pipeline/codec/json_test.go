package codec

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

func decodeOne(t *testing.T, doc, path string, kind pipeline.Kind) (pipeline.Value, error) {
	t.Helper()
	slots := make([]pipeline.Value, 1)
	err := NewJSON([]Field{field(t, path, 0, kind)}, -1, Default()).Decode([]byte(doc), slots)
	return slots[0], err
}

func TestJSONValues(t *testing.T) {
	i, u, f, s, j := pipeline.IntValue, pipeline.UintValue, pipeline.FloatValue, pipeline.StringValue, pipeline.JSONValue
	for _, c := range []struct {
		doc, path string
		kind      pipeline.Kind
		want      pipeline.Value
	}{
		{`{"a":1}`, "a", pipeline.Null, i(1)},
		{`{"a":-0}`, "a", pipeline.Null, i(0)},
		{`{"a":1.0}`, "a", pipeline.Null, f(1)},
		{`{"a":1.0}`, "a", pipeline.Int, i(1)},
		{`{"a":1e3}`, "a", pipeline.Int, i(1000)},
		{`{"a":1000.0e0}`, "a", pipeline.Int, i(1000)},
		{`{"a":12345e-2}`, "a", pipeline.Float, f(123.45)},
		{`{"a":1230e-1}`, "a", pipeline.Int, i(123)},
		{`{"a":0e99}`, "a", pipeline.Int, i(0)},
		{`{"a":9007199254740993.0}`, "a", pipeline.Int, i(9007199254740993)},
		{`{"a":0.00000000000000000000001e23}`, "a", pipeline.Int, i(1)},
		{`{"a":18446744073709551615}`, "a", pipeline.Null, u(math.MaxUint64)},
		{`{"a":18446744073709551615}`, "a", pipeline.Int, u(math.MaxUint64)},
		{`{"a":-9223372036854775808}`, "a", pipeline.Int, i(math.MinInt64)},
		{`{"a":7}`, "a", pipeline.Uint, i(7)},
		{`{"a":7}`, "a", pipeline.Float, f(7)},
		{`{"a":123456789012345678901234567890}`, "a", pipeline.Float, f(123456789012345678901234567890)},
		{`{"a":1e-999}`, "a", pipeline.Float, f(0)},
		{`{"a":0.1}`, "a", pipeline.Null, f(0.1)},
		{`{"a":123456789012345678901234567890}`, "a", pipeline.JSON, j("123456789012345678901234567890")},
		{`{"a":"x"}`, "a", pipeline.Null, s("x")},
		{`{"a":"\u0041\n\ud83d\ude00\/"}`, "a", pipeline.String, s("A\n😀/")},
		{`{"a":"x"}`, "a", pipeline.JSON, j(`"x"`)},
		{`{"a":"AAE="}`, "a", pipeline.Bytes, pipeline.BytesValue("\x00\x01")},
		{`{"a":true}`, "a", pipeline.Bool, pipeline.BoolValue(true)},
		{`{"a":null}`, "a", pipeline.Int, pipeline.Value{}},
		{`{}`, "a", pipeline.Int, pipeline.Value{}},
		{`7`, "a", pipeline.Int, pipeline.Value{}},
		{`{"a":{"b":[1, 2 ]}}`, "a", pipeline.Null, j(`{"b":[1, 2 ]}`)},
		{`{"a":{"b":[1, {"c":5}]}}`, "a.b[1].c", pipeline.Int, i(5)},
		{`{"a":{"b":[1]}}`, "a.b[1].c", pipeline.Int, pipeline.Value{}},
		{`{"a":3}`, "a.b[1].c", pipeline.Int, pipeline.Value{}},
		{`[[3,4]]`, "a", pipeline.Int, pipeline.Value{}},
		{`{"\u0061":1}`, "a", pipeline.Null, i(1)},
		{" \t\r\n{ \"a\" : 1 } \n", "a", pipeline.Null, i(1)},
		{"\uFEFF{\"a\":1}", "a", pipeline.Null, i(1)},
		{`{"b":1,"b":2,"a":1}`, "a", pipeline.Null, i(1)},
	} {
		got, err := decodeOne(t, c.doc, c.path, c.kind)
		if err != nil {
			t.Errorf("%s %s: %v", c.doc, c.kind, err)
		} else if got != c.want {
			t.Errorf("%s %s: %v, want %v", c.doc, c.kind, got, c.want)
		}
	}
}

func TestJSONRefusals(t *testing.T) {
	for _, c := range []struct {
		doc    string
		kind   pipeline.Kind
		reason string
	}{
		{``, 0, "unexpected end"},
		{`{`, 0, "double quotes"},
		{`{"a":1`, 0, "unexpected end"},
		{`{"a":1,}`, 0, "double quotes"},
		{`{"a":1}{`, 0, "behind the end"},
		{`{"a":01}`, 0, "does not begin with 0"},
		{`{"a":+1}`, 0, "want a value"},
		{`{"a":.5}`, 0, "want a value"},
		{`{"a":5.}`, 0, "want a digit"},
		{`{"a":5e}`, 0, "want a digit"},
		{`{"a":-}`, 0, "want a digit"},
		{`{"a":NaN}`, 0, "want a value"},
		{`{"a":-Infinity}`, 0, "want a digit"},
		{`{"a":1e999}`, 0, "float64"},
		{`{"a":18446744073709551616}`, 0, "integer out of range"},
		{`{"a":-9223372036854775809}`, 0, "integer out of range"},
		{`{"a":1e300}`, pipeline.Int, "integer out of range"},
		{`{"a":1e99999999999999999999}`, pipeline.Int, "integer out of range"},
		{`{"a":1.5}`, pipeline.Int, "declared int"},
		{`{"a":-1}`, pipeline.Uint, "negative"},
		{`{"a":"1"}`, pipeline.Int, "declared int, found text"},
		{`{"a":"nan"}`, pipeline.Float, "declared float, found text"},
		{`{"a":1}`, pipeline.String, "declared string"},
		{`{"a":true}`, pipeline.Int, "found bool"},
		{`{"a":{}}`, pipeline.Int, "found an object"},
		{`{"a":1,"a":2}`, 0, "twice"},
		{`{"a":1,"\u0061":2}`, 0, "twice"},
		{`{"a":"\ud800"}`, 0, "surrogate"},
		{`{"b":"\ud800\u0041"}`, 0, "surrogate"},
		{`{"b":"\udc00"}`, 0, "surrogate"},
		{"{\"b\":\"\xff\"}", 0, "UTF-8"},
		{"{\"\xed\xa0\x80\":1}", 0, "UTF-8"},
		{"{\"b\":\"a\nb\"}", 0, "control character"},
		{`{"b":"\x"}`, 0, "bad escape"},
		{`{"b":"\u12"}`, 0, "escape"},
		{`{'a':1}`, 0, "double quotes"},
		{`tru`, 0, "want a value"},
		{strings.Repeat("[", 65) + strings.Repeat("]", 65), 0, "deeper than 64"},
		{"\uFEFF\uFEFF{}", 0, "want a value"},
	} {
		_, err := decodeOne(t, c.doc, "a", c.kind)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Reason, c.reason) {
			t.Errorf("%q: %v, want %q", c.doc, err, c.reason)
		}
	}
	if _, err := decodeOne(t, strings.Repeat("[", 64)+strings.Repeat("]", 64), "a", 0); err != nil {
		t.Errorf("64 levels: %v", err)
	}
}

// TestJSONLastDocumentLeavesNothing: slots of the document before are cleared, and a refused one does not spoil the next.
func TestJSONLastDocumentLeavesNothing(t *testing.T) {
	d := NewJSON([]Field{field(t, "a", 0, 0), field(t, "a.b", 1, 0), field(t, "a", 2, pipeline.JSON)}, 3, Default())
	slots := make([]pipeline.Value, 4)
	for _, doc := range []string{`{"a":{"b":1}}`, `{"a":{"b":1,"b":2}}`, `{"a":5}`} {
		_ = d.Decode([]byte(doc), slots)
	}
	want := []pipeline.Value{pipeline.IntValue(5), {}, pipeline.JSONValue("5"), pipeline.JSONValue(`{"a":5}`)}
	if d := cmp.Diff(want, slots); d != "" {
		t.Error(d)
	}
}

// TestJSONCutAndFlipped: no damaged document panics; a cut one is refused.
func TestJSONCutAndFlipped(t *testing.T) {
	doc := `{"ts":1767225600123,"a":{"b":[1,{"c":"h\u00e9 \ud83d\ude00"}]},"x":-1.5e3,"t":true,"n":null,"é":"ü"}`
	d := NewJSON([]Field{field(t, "a.b[1].c", 0, 0), field(t, "x", 1, 0)}, 2, Default())
	slots := make([]pipeline.Value, 3)
	for i := range len(doc) {
		if err := d.Decode([]byte(doc[:i]), slots); err == nil {
			t.Errorf("cut at %d is accepted", i)
		}
		for bit := range 8 {
			b := []byte(doc)
			b[i] ^= 1 << bit
			_ = d.Decode(b, slots)
		}
	}
}

func TestLimitsValidate(t *testing.T) {
	if err := Default().Validate(); err != nil {
		t.Error(err)
	}
	for _, l := range []Limits{{}, {Depth: 3, Elements: 100}, {Depth: 64, Elements: 1}, {Depth: 1001, Elements: 100}} {
		if l.Validate() == nil {
			t.Errorf("%+v is accepted", l)
		}
	}
}
