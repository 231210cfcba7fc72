package jsonrow

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

func walk(row []byte) (map[string]string, error) {
	got := map[string]string{}
	err := Members(row, func(name, value []byte) error {
		got[string(name)] = string(value)
		return nil
	})
	return got, err
}

// FuzzMembers compares the walk with encoding/json on what that takes; on everything else it only must end.
func FuzzMembers(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":1}`, ` { "a" : [1,{"b":"}"}] , "c\u00e9":"\"" } `, `{"a":-1.5e3,"b":null,"c":true}`, `{"a":`, `{"a":1,}`, `{"é":"\\"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		got, err := walk(row)
		var want map[string]json.RawMessage
		if json.Unmarshal(row, &want) != nil || want == nil || !json.Valid(row) || !utf8Valid(row) {
			return
		}
		if err != nil {
			t.Fatalf("%q: %v", row, err)
		}
		if !slices.Equal(slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want))) {
			t.Fatalf("%q: members %v, want %v", row, got, want)
		}
		for k, v := range want {
			if !bytes.Equal(bytes.TrimSpace(v), []byte(got[k])) {
				t.Fatalf("%q: %q is %q, want %q", row, k, got[k], v)
			}
		}
	})
}

func utf8Valid(b []byte) bool { return bytes.Equal(bytes.ToValidUTF8(b, nil), b) }

// TestMembersCut: a row that was cut anywhere is an error.
func TestMembersCut(t *testing.T) {
	row := []byte(`{"a":[1,{"b":"}\""}],"c\u00e9":"x\\","d":-1.5e3,"e":null}`)
	if got, err := walk(row); err != nil || len(got) != 4 || got["cé"] != `"x\\"` {
		t.Fatal(got, err)
	}
	for n := range row {
		if got, err := walk(row[:n]); err == nil {
			t.Errorf("cut at %d: %v", n, got)
		}
	}
}
