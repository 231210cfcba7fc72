package codec

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/weirstream/weir/pipeline"
)

var fuzzSeeds = []string{
	`{"a":1,"b":"x"}`, `{"a":{"b":[1,2.5,{"c":null}]},"d":true}`, ` [1e5, -0, 0.1e-7, "\ud83d\ude00", "\u00e9\n"] `, `{"a":1}{`,
	`{"a":"\ud800"}`, `"\udc00\ud800"`, `{"a":01}`, `nul`, `{"a":18446744073709551615,"d":-9223372036854775808}`, "{\"a\":\"\xff\"}",
	`{"a":1e999}`, `{"a":1,"a":2}`, `{"a":[],"b":{}}`, `{"\u0061":0.30000000000000004}`, "\uFEFF{}", `{"a":123456789012345678901}`, `{"a":9007199254740993.5}`,
	`{"a":"` + strings.Repeat("abcdefgh", 9) + `\"é"}`, `{"a":4.9406564584124654e-324,"d":1.7976931348623157e308}`,
}

// FuzzJSON compares with go-json-experiment's jsontext: the same documents are accepted, and the same values found.
func FuzzJSON(f *testing.F) {
	for _, s := range fuzzSeeds {
		f.Add([]byte(s))
	}
	fields := []Field{field(f, "a", 0, pipeline.JSON), field(f, "a.b", 1, pipeline.JSON), field(f, "d", 2, pipeline.JSON), field(f, "a.b[2].c", 3, pipeline.JSON)}
	typed := []Field{field(f, "a", 0, pipeline.Null), field(f, "a.b", 1, pipeline.Null), field(f, "d", 2, pipeline.Null), field(f, "a.b[2].c", 3, pipeline.Null)}
	d := NewJSON(fields, 4, Limits{Depth: depthMax, Elements: elementsMin})
	plain := NewJSON(typed, -1, Limits{Depth: depthMax, Elements: elementsMin})
	f.Fuzz(func(t *testing.T, doc []byte) {
		if len(doc) > depthMax/2 || bytes.HasPrefix(doc, []byte(bom)) {
			t.Skip()
		}
		want, duplicate, accepted := reference(doc)
		slots := make([]pipeline.Value, 5)
		err := d.Decode(doc, slots)
		if err != nil {
			if accepted && !duplicate {
				t.Fatalf("%q: refused: %v", doc, err)
			}
			return
		}
		if !accepted || duplicate {
			t.Fatalf("%q: accepted; reference: well-formed %v, duplicate %v", doc, accepted, duplicate)
		}
		for i, w := range want {
			got := slots[i].Str
			if w == "null" {
				w = "" // null and missing are the same
			}
			if got != w {
				t.Fatalf("%q: slot %d is %q, want %q", doc, i, got, w)
			}
		}
		if got := slots[4].Str; got != string(bytes.Trim(doc, " \t\r\n")) {
			t.Fatalf("%q: whole is %q", doc, got)
		}
		if err := plain.Decode(doc, slots); err == nil {
			compareTyped(t, want, slots)
		}
	})
}

// reference finds the texts of a, a.b, d and a.b[2].c by jsontext.
func reference(doc []byte) (texts [4]string, duplicate, accepted bool) {
	if !wellFormed(doc) {
		return texts, false, false
	}
	a, dupA := referenceMember(doc, "a")
	b, dupB := referenceMember(a, "b")
	d, dupD := referenceMember(doc, "d")
	var c []byte
	var dupC bool
	if len(b) > 0 && b[0] == '[' {
		dec := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true))
		_, _ = dec.ReadToken()
		for i := 0; dec.PeekKind() != ']'; i++ {
			v, _ := dec.ReadValue()
			if i == 2 {
				c, dupC = referenceMember(bytes.Clone(v), "c")
			}
		}
	}
	return [4]string{string(a), string(b), string(d), string(c)}, dupA || dupB || dupC || dupD, true
}

func wellFormed(doc []byte) bool {
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true))
	if _, err := dec.ReadValue(); err != nil {
		return false
	}
	_, err := dec.ReadToken()
	return errors.Is(err, io.EOF)
}

func referenceMember(doc []byte, name string) (value []byte, duplicate bool) {
	if len(doc) == 0 {
		return nil, false
	}
	dec := jsontext.NewDecoder(bytes.NewReader(doc), jsontext.AllowDuplicateNames(true))
	if t, err := dec.ReadToken(); err != nil || t.Kind() != '{' {
		return nil, false
	}
	for n := 0; dec.PeekKind() != '}'; {
		key, _ := dec.ReadToken()
		same := key.String() == name
		v, _ := dec.ReadValue()
		if same {
			n++
			value, duplicate = bytes.Clone(v), n > 1
		}
	}
	return value, duplicate
}

// compareTyped compares scalars with what jsontext makes of their texts.
func compareTyped(t *testing.T, texts [4]string, slots []pipeline.Value) {
	t.Helper()
	for i, text := range texts {
		if text == "" || text == "null" {
			continue
		}
		token, err := jsontext.NewDecoder(strings.NewReader(text)).ReadToken()
		if err != nil {
			t.Fatal(err)
		}
		v := slots[i]
		switch v.Kind {
		case pipeline.Bool:
			if v.Bool() != token.Bool() {
				t.Fatalf("%s: %v", text, v)
			}
		case pipeline.String:
			if v.Str != token.String() {
				t.Fatalf("%s: %q, want %q", text, v.Str, token.String())
			}
		case pipeline.Float:
			if f, err := strconv.ParseFloat(text, 64); err != nil || v.Float() != f {
				t.Fatalf("%s: %v, want %v", text, v.Float(), f)
			}
		case pipeline.Int, pipeline.Uint:
			if b, _ := AppendValue(nil, v); string(b) != text && text != "-0" {
				t.Fatalf("%s: %s", text, b)
			}
		case pipeline.JSON:
			if text[0] != '{' && text[0] != '[' {
				t.Fatalf("%s is stored as JSON", text)
			}
		default:
			t.Fatalf("%s: %v", text, v)
		}
	}
}

// TestJSONStrictOnEveryByte puts every byte at every place of a document and compares acceptance with jsontext.
func TestJSONStrictOnEveryByte(t *testing.T) {
	doc := `{"a":"\u00e9x","b":[1.5e-3,true,null,{"é":-0}],"c":"12345678"}`
	d := NewJSON(nil, -1, Default())
	for i := range len(doc) {
		for c := range 256 {
			b := []byte(doc)
			b[i] = byte(c)
			if got, want := d.Decode(b, nil) == nil, wellFormed(b); got != want {
				t.Fatalf("%q: accepted %v, jsontext %v", b, got, want)
			}
		}
	}
}

// FuzzCBOR: no payload panics, and what is accepted becomes well-formed JSON that holds the same fields.
func FuzzCBOR(f *testing.F) {
	for _, s := range []string{`{"a":1,"d":"x"}`, `{"a":{"b":[1,2,{"c":5}]},"d":1.5}`, `[1,[2,[3]]]`, `"é"`} {
		f.Add(cborOf(f, s))
	}
	for _, s := range []string{"\xbf\x61a\x9f\x01\xff\xff", "\xc2\x49\x01\x00\x00\x00\x00\x00\x00\x00\x00", "\xc1\x1a\x00\x00\x00\x01", "\xf9\x7e\x00", "\x7f\x61a\x61b\xff", "\xa1\x01\x02"} {
		f.Add([]byte(s))
	}
	fields := []Field{field(f, "a", 0, pipeline.Null), field(f, "a.b", 1, pipeline.Null), field(f, "d", 2, pipeline.Null), field(f, "a.b[2].c", 3, pipeline.Null)}
	d := NewCBOR(fields, 4, Default())
	again := NewJSON(fields, -1, Limits{Depth: depthMax, Elements: elementsMin})
	f.Fuzz(func(t *testing.T, doc []byte) {
		slots := make([]pipeline.Value, 5)
		if d.Decode(doc, slots) != nil {
			return
		}
		whole := slots[4].Str
		if !wellFormed([]byte(whole)) {
			t.Fatalf("% x became %q", doc, whole)
		}
		fromJSON := make([]pipeline.Value, 4)
		if again.Decode([]byte(whole), fromJSON) != nil {
			return // a big number beyond 64 bits, as text in the whole only
		}
		for i := range fromJSON {
			a, errA := AppendValue(nil, slots[i])
			b, errB := AppendValue(nil, fromJSON[i])
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Fatalf("% x: slot %d is %s, from its JSON %s", doc, i, a, b)
			}
		}
	})
}
