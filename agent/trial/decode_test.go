package trial

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// TestValuesAreThoseOfTheLibrary: what stands in rows and payloads is what the library's decoder makes of it.
func TestValuesAreThoseOfTheLibrary(t *testing.T) {
	for _, text := range []string{
		"a: 1\nb: -1\nc: 18446744073709551615\nd: -9223372036854775808\ne: 0x1f\nf: 0o17\ng: 1_000\n",
		"a: 1.5\nb: -0.0\nc: 1e3\nd: 1.0e+3\ne: .inf\nf: -.inf\ng: 9007199254740993\nh: 123456789012345678901234567890\n",
		"a: yes\nb: true\nc: False\nd: ~\ne: null\nf:\ng: ''\nh: \"a\\tb\"\ni: 'it''s'\n",
		"a: |\n  one\n  two\nb: >\n  one\n  two\nc: |-\n  no end\n",
		"a: {x: 1, y: [1, 2, {z: null}]}\nb: []\nc: {}\nd:\n- 1\n- - 2\n  - 3\n",
		"a: &x {n: 1, m: 2}\nb: *x\nc: {<<: *x, m: 3}\nd:\n  <<: *x\n  k: 4\n",
		"a: &x 5\nb: [*x, *x]\nc: !!str 5\nd: !!str true\n",
		"1: a\ntrue: b\n1.5: c\n\"q\": d\n",
		"? a\n: 1\n? b\n: 2\n",
	} {
		var want map[string]any
		if err := yaml.Unmarshal([]byte(text), &want); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		parsed, err := parser.ParseBytes([]byte(text), 0)
		if err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		d := decoder{anchors: map[string]ast.Node{}, left: nodesMax}
		if err := d.value(parsed.Docs[0].Body, reflect.ValueOf(&got).Elem()); err != nil {
			t.Errorf("%s: %v", text, err)
		} else if !cmp.Equal(want, got) {
			t.Errorf("%s: %s", text, cmp.Diff(want, got))
		}
	}
}

func TestFields(t *testing.T) {
	var f File
	text := `config: weir.yaml
cases:
- &one
  name: 7
  start: 2026-02-03 04:05:06
  drain: false
  input: [{at: 0, topic: a/b, payload: {x: 1}, qos: 1, retain: true}]
  expect: {out: [], other: {count: 3}}
- name: two
  <<: *one
  start: 2026-02-03T04:05:06+01:00
  crash_at: [90s, 1m30s]
  dead_letters: 2
`
	if err := decode([]byte(text), &f); err != nil {
		t.Fatal(err)
	}
	no, three := false, 3
	input := []Arrival{{Topic: "a/b", Payload: map[string]any{"x": uint64(1)}, QoS: 1, Retain: true}}
	expect := map[string]Expect{"out": {Rows: []map[string]any{}}, "other": {Count: &three}}
	want := []Case{
		{Name: "7", Start: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Drain: &no, Input: input, Expect: expect},
		{Name: "two", Start: time.Date(2026, 2, 3, 3, 5, 6, 0, time.UTC), Drain: &no, Input: input, Expect: expect, CrashAt: []duration{duration(90 * time.Second), duration(90 * time.Second)}, DeadLetters: 2},
	}
	if !cmp.Equal(want, f.Cases) || f.Config != "weir.yaml" {
		t.Errorf("%s", cmp.Diff(want, f.Cases))
	}
}

func TestWrongFiles(t *testing.T) {
	for _, c := range []struct{ text, message string }{
		{"config: [a]\n", "[1:9] text is wanted here, found sequence\n>  1 | config: [a]\n"},
		{"cases: {a: 1}\n", "[1:8] a list is wanted here, found mapping"},
		{"cases: [1]\n", "[1:9] a mapping is wanted here, found int"},
		{"cases: [{inptu: []}]\n", `[1:10] unknown field "inptu"; did you mean "input"?`},
		{"cases: [{dead_letters: many}]\n", "a whole number is wanted here, found many"},
		{"cases: [{dead_letters: 18446744073709551615}]\n", "a whole number is wanted here"},
		{"cases: [{drain: perhaps}]\n", "true or false is wanted here"},
		{"cases: [{start: yesterday}]\n", `found "yesterday"`},
		{"cases: [{expect: {out: 3}}]\n", "a mapping is wanted here"},
		{"cases: [{expect: {out: {}}}]\n", "a list of rows, or {count: N}"},
		{"config: a\nconfig: b\n", `[2:1] mapping key "config" already defined at [1:1]`},
		{"config: *none\n", `no anchor "none" stands before`},
		{"config: !!binary aGk=\n", "the tag !!binary is not supported"},
		{"config: {a\n", "[1:"},
		{"cases:\n- name: &a [*a]\n", "found sequence"},
		{"cases:\n- input:\n  - payload: &a [*a]\n", "nested too deep"},
		{"cases:\n- input:\n  - payload: &a {<<: *a}\n", "nested too deep"},
		{bomb(), "unfolds to more than"},
	} {
		if err := decode([]byte(c.text), &File{}); err == nil || !strings.Contains(err.Error(), c.message) {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if err := decode(nil, &File{}); err != nil {
		t.Errorf("an empty file is an empty one: %v", err)
	}
}

// bomb is a few lines that unfold to 10^9 values.
func bomb() string {
	text := "cases:\n- input:\n  - payload:\n      a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
	for i, name := range []string{"a1", "a2", "a3", "a4", "a5", "a6", "a7", "a8"} {
		before := "*a" + string(rune('0'+i))
		text += "      " + name + ": &" + name + " [" + strings.TrimSuffix(strings.Repeat(before+", ", 10), ", ") + "]\n"
	}
	return text
}

// FuzzDecode: whatever the parser takes is read or refused.
func FuzzDecode(f *testing.F) {
	f.Add("config: weir.yaml\ncases:\n- name: &a one\n  input: [{at: 0s, topic: *a, payload: {x: [1, .5, !!str 3]}}]\n  expect: {out: {count: 1}}\n")
	f.Add("cases:\n- &x {start: 2026-01-01, <<: {drain: true}}\n- <<: [*x, *x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer func() {
			if r := recover(); r != nil && parses(text) {
				t.Fatalf("%v", r)
			}
		}()
		if err := decode([]byte(text), &File{}); err != nil && err.Error() == "" {
			t.Error("an error says nothing")
		}
	})
}

func parses(text string) (is bool) {
	defer func() { _ = recover() }()
	_, err := parser.ParseBytes([]byte(text), 0)
	return err == nil
}
