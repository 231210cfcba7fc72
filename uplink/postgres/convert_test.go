package postgres

import (
	"bytes"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

func FuzzParseRow(f *testing.F) {
	f.Add([]byte("1,2,2,1,0,9,a,00000000000000ff"))
	f.Add([]byte("2,2,2,1,0,9,a,00"))
	f.Add([]byte("1,2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRow(bytes.Split(text, []byte{','}))
		if err == nil && (r.seq > 1<<63-1 || r.opened > 1<<63-1) {
			t.Fatal(r)
		}
	})
}

// TestConvert: what a column takes, and what it refuses by name.
func TestConvert(t *testing.T) {
	for _, c := range []struct {
		base, raw, want string
		null, wrong     bool
	}{
		{base: "int8", raw: "9223372036854775807", want: "9223372036854775807"},
		{base: "int8", raw: "9223372036854775808", wrong: true},
		{base: "int2", raw: "32768", wrong: true},
		{base: "int8", raw: "1e3", wrong: true},
		{base: "int8", raw: `"1"`, wrong: true},
		{base: "int8", raw: "null", null: true},
		{base: "numeric", raw: "18446744073709551615", want: "18446744073709551615"},
		{base: "numeric", raw: "true", wrong: true},
		{base: "float8", raw: "9007199254740992", want: "9007199254740992"},
		{base: "float8", raw: "9007199254740993", wrong: true}, // an integer beyond 2^53 would be rounded in silence
		{base: "float8", raw: "1152921504606846976", want: "1152921504606846976"},
		{base: "float8", raw: "1e19", want: "1e19"},
		{base: "float4", raw: "16777217", wrong: true},
		{base: "float8", raw: "1e999", wrong: true},
		{base: "float8", raw: "[1]", wrong: true},
		{base: "bool", raw: "1", wrong: true},
		{base: "bool", raw: "false", want: "false"},
		{base: "text", raw: `"a\"b"`, want: `a"b`},
		{base: "text", raw: `{"a":1}`, want: `{"a":1}`},
		{base: "text", raw: `"\u0000"`, wrong: true},
		{base: "bytea", raw: `"AP8="`, want: "AP8="},
		{base: "bytea", raw: `"?"`, wrong: true},
		{base: "jsonb", raw: `null`, null: true},
		{base: "timestamptz", raw: `"2026-01-01T00:00:00Z"`, want: "2026-01-01T00:00:00Z"},
		{base: "timestamptz", raw: `1`, wrong: true},
	} {
		col := Column{Name: "x", Kind: pipeline.Null}
		f, bits, problem := formOf(&col, c.base, map[bool]string{true: "S"}[c.base == "text"])
		if problem != "" {
			t.Fatal(c.base, problem)
		}
		tc := tableColumn{Column: col, form: f, bits: bits}
		text, null, wrong := tc.appendValue([]byte(c.raw))
		if null != c.null || (wrong != "") != c.wrong || wrong == "" && !null && string(text) != c.want {
			t.Errorf("%s of %s: %q null %v %q", c.base, c.raw, text, null, wrong)
		}
	}
}
