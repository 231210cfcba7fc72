package expr

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
)

// TestErrorsPointAtTheFault: ‹…› marks the part of the source that the error names.
func TestErrorsPointAtTheFault(t *testing.T) {
	for _, c := range []struct{ marked, msg, suggest string }{
		{`‹tempp› > 8`, "there is no field tempp", "temp"},
		{`temp > 8 && ‹Temp› < 3`, "there is no field Temp", "temp"},
		{`‹motor.rpn› > 1`, "there is no field motor.rpn", "motor.rpm"},
		{`‹lenght(s)›`, "there is no function lenght", ""},
		{`‹uper(s)›`, "there is no function uper", "upper"},
		{`‹now()›`, "expressions read no clock", "$time"},
		{`‹round()›`, "takes 1 to 2 arguments, found 0", ""},
		{`‹max(1)›`, "takes 2 arguments or more, found 1", ""},
		{`abs(‹s›)`, "argument 1 wants number, found string", ""},
		{`temp ‹=› 8`, `want an operator or the end, found "="`, "=="},
		{`temp ‹&› 8`, `found "&"`, "&&"},
		{`temp ‹|› 8`, `found "|"`, "||"},
		{`temp ‹^› 8`, `found "^"`, "pow"},
		{`temp ‹**› 8`, `there is no operator **`, "pow"},
		{`temp ‹#›`, `found "#"`, ""},
		{`temp ‹é›`, `want an operator or the end`, ""},
		{`(temp > 8‹›`, `want ")", found the end`, ""},
		{`temp >‹›`, "want a value, found the end", ""},
		{`‹›`, "want a value, found the end", ""},
		{`temp > 1 ‹<› 2`, "comparisons do not chain", ""},
		{`temp in ‹[›]`, "the list is empty", ""},
		{`‹[›1]`, `a list stands only behind "in"`, ""},
		{`temp in 5‹›`, "want a list [a, b] or a range a..b", ""},
		{`temp not ‹between› 5`, `want "in" behind "not"`, ""},
		{`temp ? 1 ‹,› 2`, `want ":"`, ""},
		{`‹temp› ? 1 : 2`, "? wants bool, found float", ""},
		{`b && ‹temp›`, "&& wants bool, found float", ""},
		{`‹s == temp›`, "compares two values of one kind", ""},
		{`‹s in ["a", 1]›`, "compares two values of one kind", ""},
		{`s in ["a", ‹null›]`, "nothing equals null: ask isNull(s)", ""},
		{`‹null == s›`, "ask isNull(s)", "isNull"},
		{`s matches ‹s›`, "must be a constant text", ""},
		{`s matches ‹"(a"›`, "bad pattern: missing closing )", ""},
		{`s matches ‹"(?=a)"›`, "bad pattern: invalid or unsupported Perl syntax", ""},
		{`‹"abc›`, "text has no closing", ""},
		{`"a‹\q›"`, "is no escape", ""},
		{`"a‹\›`, "is no escape", ""},
		{`‹18446744073709551616›`, "the largest is 18446744073709551615", ""},
		{`‹1e999›`, "out of the range of a float64", ""},
		{`‹0xfg›`, "no number in base 16", ""},
		{`‹1x›`, "no number and no duration", ""},
		{`b || ‹1 % 0› == 1`, "division by zero", ""},
		{`‹$env›`, "want a name", ""},
		{`a[‹temp›]`, "want a constant index", ""},
		{`a[‹9999999›]`, "want a constant index", ""},
		{`a.‹"b"›`, `want a name behind "."`, ""},
		{`a‹.5›`, "want an operator or the end", ""},
		{`‹in› > 3`, "want a value", ""},
	} {
		before, rest, _ := strings.Cut(c.marked, "‹")
		at, after, _ := strings.Cut(rest, "›")
		src := before + at + after
		_, err := Compile(src, testEnv{{"temp", pipeline.Float}, {"s", pipeline.String}, {"b", pipeline.Bool}, {"motor.rpm", pipeline.Int}})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", src, err)
			continue
		}
		if !strings.Contains(e.Msg, c.msg) || e.Suggest != c.suggest || e.Offset != len(before) || e.Length != len(at) {
			t.Errorf("%s:\n  got  %+v\n  want %q, %q at %d, %d bytes", src, *e, c.msg, c.suggest, len(before), len(at))
		}
	}
}

func TestLimits(t *testing.T) {
	for name, src := range map[string]string{
		"longer than":     strings.Repeat(" ", SourceBytesMax) + "1",
		"more than 1000":  "temp in [" + strings.Repeat("1,", NodesMax) + "1]",
		"nested deeper":   strings.Repeat("(", DepthMax+1) + "1" + strings.Repeat(")", DepthMax+1),
		"nested deeper ":  strings.Repeat("-", DepthMax+1) + "1",
		"nested deeper  ": strings.Repeat("b ? 1 : ", DepthMax+1) + "1",
		"nested deeper 3": "b" + strings.Repeat(" || b", DepthMax+1),
		"nested deeper 4": strings.Repeat("abs(", DepthMax+1) + "1" + strings.Repeat(")", DepthMax+1),
	} {
		_, err := Compile(src, anyEnv{})
		if err == nil || !strings.Contains(err.Error(), strings.TrimRight(name, " 34")) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Compile("b"+strings.Repeat(" || b", DepthMax-1), anyEnv{}); err != nil {
		t.Error(err)
	}
	long := pipeline.StringValue(strings.Repeat("a", 2000))
	p, err := Compile(`replace(replace(x, "a", x), "a", x)`, anyEnv{})
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Eval([]pipeline.Value{long}); v.Kind != pipeline.Error || v.Str != reasonText {
		t.Errorf("a text bomb gives %d bytes of %s", len(v.Str), v.Kind)
	}
}

func TestFields(t *testing.T) {
	paths, err := Fields(`a.b[0] > 3 && $topic contains x && a.b[0] in [y["odd.name"], $env["z z"]] || len(x) == 2`)
	if err != nil {
		t.Fatal(err)
	}
	want := []pipeline.Path{{{Name: "a"}, {Name: "b"}, {Index: 0}}, {{Name: "$topic"}}, {{Name: "x"}}, {{Name: "y"}, {Name: "odd.name"}}, {{Name: "z z"}}}
	if d := cmp.Diff(want, paths); d != "" {
		t.Error(d)
	}
	if _, err := Fields("a >"); err == nil {
		t.Error("half an expression has fields")
	}
}

func TestParseCall(t *testing.T) {
	c, err := ParseCall(`percentile((temp - 32) / 1.8, 99)`)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(Call{Name: "percentile", Args: []string{"(temp - 32) / 1.8", "99"}, At: []int{11, 30}}, c); d != "" {
		t.Error(d)
	}
	if c, err = ParseCall("count()"); err != nil || c.Name != "count" || len(c.Args) != 0 {
		t.Errorf("%v, %v", c, err)
	}
	for _, src := range []string{"temp", "avg(", "avg(temp) + 1", ""} {
		if _, err := ParseCall(src); err == nil {
			t.Errorf("%q is taken for a call", src)
		}
	}
}

// TestErrorsAtRunTime: the reason names what was found, for filters too.
func TestErrorsAtRunTime(t *testing.T) {
	for _, c := range []struct{ src, reason string }{
		{`x > 3`, "string > int has no meaning"},
		{`x + 3`, "string + int has no meaning"},
		{`-x`, "-string has no meaning"},
		{`!x`, "! wants a bool, found string"},
		{`x && true`, "&& wants a bool, found string"},
		{`true && x`, "&& wants a bool, found string"},
		{`x ? 1 : 2`, "? wants a bool, found string"},
		{`x in 1..3`, "string in int has no meaning"},
		{`1 in [2, 1 / (3 - len(x))]`, "division by zero"},
		{`sqrt(x)`, "sqrt of string has no meaning"},
		{`clamp(x, 1, 2)`, "clamp of string, int, int has no meaning"},
		{`clamp(len(x), 3, 2)`, "clamp: the low end lies above the high end"},
		{`round(1.5, len(x) * 6)`, "round: digits are not in 0..15"},
		{`split(x, "", 0)`, "split: the separator is empty"},
		{`replace(x, "", "y")`, "replace: the text to replace is empty"},
		{`log(len(x) - 3)`, "log of a number that is not positive"},
		{`int(pow(10, 17 + len(x)))`, reasonOverflow},
		{`exp(1000 * len(x))`, reasonRange},
		{`x`, "want a bool, found string"},
	} {
		p, err := Compile(c.src, anyEnv{})
		if err != nil {
			t.Errorf("%s: %v", c.src, err)
			continue
		}
		slots := []pipeline.Value{pipeline.StringValue("abc")}
		if ok, reason := p.True(slots); ok || reason != c.reason {
			t.Errorf("%s: %v, %q, want %q", c.src, ok, reason, c.reason)
		}
		if v := p.Eval(slots); c.src != "x" && (v.Kind != pipeline.Error || v.Str != c.reason) {
			t.Errorf("%s: %v", c.src, v)
		}
	}
	// equality of two kinds is false, not an error
	p, err := Compile(`x == 3 || x in [1, 2]`, anyEnv{})
	if err != nil {
		t.Fatal(err)
	}
	if v := p.Eval([]pipeline.Value{pipeline.StringValue("3")}); v != pipeline.BoolValue(false) {
		t.Errorf("text equals a number: %v", v)
	}
}
