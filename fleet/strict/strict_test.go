package strict

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
)

// sample has each kind of member.
type sample struct {
	Text   string            `json:"text"`
	Short  string            `json:"short,omitempty" most:"4"`
	Int    int               `json:"int"`
	Long   int64             `json:"long,omitempty"`
	Count  uint64            `json:"count"`
	Small  uint32            `json:"small,omitempty"`
	Is     bool              `json:"is,omitempty"`
	List   []string          `json:"list,omitempty" most:"3" each:"2"`
	Always []inner           `json:"always" most:"2"`
	Map    map[string]string `json:"map,omitempty" most:"2" each:"3"`
	Maybe  *inner            `json:"maybe,omitempty"`
}

type inner struct {
	A uint64 `json:"a"`
	B int    `json:"b,omitempty"`
}

const least = `{"text":"","int":0,"count":0,"always":[]}`

// with puts members in front of the least.
func with(members string) string { return "{" + members + "," + least[1:] }

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		b    string
		want sample
	}{
		{least, sample{Always: []inner{}}},
		{" \t\r\n{ \"text\" : \"\" ,\"int\":-7,\"count\":18446744073709551615 , \"always\" : [ ] } \n", sample{Int: -7, Count: 1<<64 - 1, Always: []inner{}}},
		{`{"text":"a\u00e9\ud83d\ude00\n\/\"\\ü","int":0,"count":0,"always":[{"a":1},{"b":2,"a":3}]}`, sample{Text: "aé😀\n/\"\\ü", Always: []inner{{1, 0}, {3, 2}}}},
		{with(`"short":"\u0041BCD","long":-9223372036854775808,"small":4294967295,"is":true`), sample{Short: "ABCD", Long: -1 << 63, Small: 1<<32 - 1, Is: true, Always: []inner{}}},
		{with(`"list":["aa","bb","c"],"map":{"k":"abc","":""},"maybe":{"a":0}`), sample{List: []string{"aa", "bb", "c"}, Map: map[string]string{"k": "abc", "": ""}, Maybe: &inner{}, Always: []inner{}}},
		{with(`"is":false,"long":0`), sample{Always: []inner{}}},
	} {
		var got sample
		if err := Decode([]byte(c.b), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.b, err, got, c.want)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct{ b, want string }{
		{"", "it ends, want an object"}, {"{", "it ends"}, {"[]", "want an object"}, {"null", "want an object"}, {least + "x", "something behind its end"}, {least + least, "something behind its end"},
		{"\ufeff" + least, "want an object"}, {with(`"Text":""`), "Text: byte 8: no such member"}, {with(`"text":"a"`), "this member is there twice"},
		{with(`"te\u0078t":"a"`), "this member is there twice"}, {with(`"none":` + strings.Repeat("[", 1000)), "no such member"}, {`{"int":0,"count":0,"always":[]}`, `member "text" is missing`},
		{strings.Replace(least, "0", "null", 1), "want a whole number"}, {with(`"list":null`), "want a list"}, {with(`"maybe":null`), "want an object"}, {with(`"is":null`), "want true or false"},
		{strings.Replace(least, "0", "1.0", 1), "want a whole one"}, {strings.Replace(least, "0", "1e3", 1), "want a whole one"}, {strings.Replace(least, "0", "01", 1), "leading zeros"},
		{strings.Replace(least, "0", "-0", 1), "leading zeros or sign"}, {strings.Replace(least, "0", "+1", 1), "want a whole number"}, {strings.Replace(least, "0", "NaN", 1), "want a whole number"},
		{strings.Replace(least, "0", `"1"`, 1), "want a whole number"}, {strings.Replace(least, `"count":0`, `"count":-1`, 1), "does not fit, want 0 or more"},
		{strings.Replace(least, `"count":0`, `"count":18446744073709551616`, 1), "does not fit"}, {with(`"long":9223372036854775808`), "does not fit"}, {with(`"small":4294967296`), "does not fit"},
		{strings.Replace(least, "0", strings.Repeat("9", 100_000), 1), "too large"}, {with(`"is":tru`), "want true or false"}, {with(`"is":1`), "want true or false"},
		{with(`"short":"ABCDE"`), "short: byte"}, {with(`"short":"` + strings.Repeat("x", 100_000)), "more than 4 bytes"}, {strings.Replace(least, `""`, `"`+strings.Repeat("x", 257)+`"`, 1), "at most 256"},
		{with(`"list":["a","b","c","d"]`), "list[3]: byte"}, {with(`"list":["a","bbb"]`), "list[1]: byte"}, {with(`"list":[]`), "empty; leave it out"}, {with(`"map":{}`), "empty; leave it out"},
		{with(`"list":["a",]`), "want a text"}, {with(`"list":["a" "b"]`), "want a comma or the list's end"}, {with(`"map":{"a":"1","a":"2"}`), "map.a: byte"}, {with(`"map":{"a":"","b":"","c":""}`), "more than 2 members"},
		{with(`"map":{"a":"1234"}`), "at most 3"}, {with(`"map":{"a" "b"}`), "want a colon"}, {with(`"maybe":{"a":1,"a":2}`), "maybe.a: byte"}, {with(`"maybe":{}`), `maybe: byte 11: member "a" is missing`},
		{strings.Replace(least, "[]", `[{"a":1},{"a":2},{"a":3}]`, 1), "always[2]"}, {strings.Replace(least, `""`, "\"\xff\"", 1), "not UTF-8"}, {strings.Replace(least, `""`, "\"\n\"", 1), "control character"},
		{strings.Replace(least, `""`, `"\ud83d"`, 1), "half a surrogate"}, {strings.Replace(least, `""`, `"\ude00\ud83d"`, 1), "half a surrogate"}, {strings.Replace(least, `""`, `"\ud83dx"`, 1), "half a surrogate"},
		{strings.Replace(least, `""`, `"\x41"`, 1), "the escape"}, {strings.Replace(least, `""`, `"\u00+1"`, 1), "the escape"}, {`{"text":"\u00`, "without end"}, {`{"text":"\`, "without end"}, {"{\"\x1b[2J\":1}", "control character"},
		{`{"\u001b[2J":1}`, `"\x1b[2J"`},
	} {
		var got sample
		if err := Decode([]byte(c.b), &got); !errors.Is(err, ErrForm) || !strings.Contains(err.Error(), c.want) || strings.ContainsRune(err.Error(), 0x1b) {
			t.Errorf("%.100s: %v, want %q", c.b, err, c.want)
		}
	}
}

// TestUnknownIsNotRead: what has no place costs nothing, however large and deep it is.
func TestUnknownIsNotRead(t *testing.T) {
	deep := []byte(`{"x":` + strings.Repeat(`{"x":[`, 150_000))
	list := []byte(strings.Replace(least, "[]", "["+strings.Repeat(`{"a":1},`, 100_000), 1))
	for name, b := range map[string][]byte{"deep": deep, "a long list": list} {
		allocs := testing.AllocsPerRun(5, func() {
			var got sample
			if Decode(b, &got) == nil {
				t.Error("accepted")
			}
		})
		if allocs > 200 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
	}
}

func TestEncode(t *testing.T) {
	v := sample{Text: "a\"\\\n\u007fé<&>", Int: -1, Count: 1<<64 - 1, Map: map[string]string{"b": "", "a": "x"}, Maybe: &inner{}}
	b, err := Encode(&v)
	const want = `{"text":"a\"\\\u000a\u007fé<&>","int":-1,"count":18446744073709551615,"always":[],"map":{"a":"x","b":""},"maybe":{"a":0}}`
	if err != nil || string(b) != want {
		t.Errorf("%v\n got %s\nwant %s", err, b, want)
	}
	if _, err := Encode(&sample{Text: "\xff"}); err == nil {
		t.Error("a text that is not UTF-8 is written")
	}
}

func TestName(t *testing.T) {
	for _, good := range []string{"gw-17", "plant 4", "Käse", strings.Repeat("x", NameMost)} {
		if err := Name(good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", " a", "a ", "a\nb", "a\x1b[2J", "a\u202eb", "a\u200bb", "\xff", strings.Repeat("x", NameMost+1)} {
		if Name(bad) == nil {
			t.Errorf("%q is a name", bad)
		}
	}
}

// FuzzDecode compares with go-json-experiment: what is accepted here is accepted there, strictly, with the same values, and is written and read again.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(least))
	f.Add([]byte(with(`"list":["aa","bb","c"],"map":{"k":"abc","":""},"maybe":{"a":0},"long":-5,"short":"\u0041"`)))
	f.Add([]byte(`{"text":"\ud83d\ude00"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var ours, theirs, again sample
		if err := Decode(b, &ours); err != nil {
			return
		}
		if err := jsonv2.Unmarshal(b, &theirs, jsonv2.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("the other reader refuses it: %v", err)
		}
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("ours %+v\ntheirs %+v", ours, theirs)
		}
		text, err := Encode(&ours)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(text, &again); err != nil || !reflect.DeepEqual(ours, again) {
			t.Fatalf("again: %v %+v", err, again)
		}
		if second, _ := Encode(&again); !bytes.Equal(text, second) {
			t.Fatalf("%s\n%s", text, second)
		}
	})
}
