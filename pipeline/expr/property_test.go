package expr

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// testEnv is a schema: the fields in slot order.
type testEnv []struct {
	name string
	kind pipeline.Kind
}

func (e testEnv) Field(p pipeline.Path) (int, pipeline.Kind, error) {
	for i, f := range e {
		if f.name == p.String() {
			return i, f.kind, nil
		}
	}
	return 0, 0, fmt.Errorf("there is no field %s", p)
}

func (e testEnv) Names() []string {
	var all []string
	for _, f := range e {
		all = append(all, f.name)
	}
	return all
}

var propertyEnv = testEnv{{"i", pipeline.Int}, {"j", pipeline.Int}, {"f", pipeline.Float}, {"g", pipeline.Float}, {"s", pipeline.String}, {"r", pipeline.String},
	{"b", pipeline.Bool}, {"x", pipeline.Null}, {"y", pipeline.Null}}

var edgeInts = []int64{0, 1, -1, 2, 1 << 53, 1<<53 + 1, -1<<53 - 1, math.MaxInt64, math.MinInt64, math.MaxInt64 - 1, 1 << 32, 3037000500, 10}
var edgeFloats = []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, 1 << 53, 1 << 63, -1 << 63, 1 << 64, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64, 9007199254740993, 2.5}

func genNumber(t *rapid.T, kind pipeline.Kind) pipeline.Value {
	if kind == pipeline.Int {
		if rapid.Bool().Draw(t, "edge") {
			return pipeline.IntValue(rapid.SampledFrom(edgeInts).Draw(t, "int"))
		}
		if rapid.Bool().Draw(t, "unsigned") {
			return pipeline.UintValue(rapid.Uint64().Draw(t, "uint"))
		}
		return pipeline.IntValue(rapid.Int64().Draw(t, "int"))
	}
	if rapid.Bool().Draw(t, "edge") {
		return pipeline.FloatValue(rapid.SampledFrom(edgeFloats).Draw(t, "float"))
	}
	return pipeline.FloatValue(rapid.Float64Range(-1e6, 1e6).Draw(t, "float"))
}

func genValue(t *rapid.T, kind pipeline.Kind) pipeline.Value {
	if rapid.IntRange(0, 5).Draw(t, "null") == 0 {
		return pipeline.Value{}
	}
	switch kind {
	case pipeline.Int, pipeline.Float:
		return genNumber(t, kind)
	case pipeline.Bool:
		return pipeline.BoolValue(rapid.Bool().Draw(t, "bool"))
	case pipeline.String:
		return pipeline.StringValue(rapid.SampledFrom([]string{"", "a", "b", "ab", "é"}).Draw(t, "text"))
	}
	return genValue(t, rapid.SampledFrom([]pipeline.Kind{pipeline.Int, pipeline.Float, pipeline.Bool, pipeline.String}).Draw(t, "kind"))
}

// genSource writes an expression of roughly the wanted type: "n" number, "b" bool, "s" text.
func genSource(t *rapid.T, want string, depth int) string {
	sub := func(w string) string { return genSource(t, w, depth-1) }
	pick := func(all ...string) string { return rapid.SampledFrom(all).Draw(t, "pick") }
	if depth == 0 {
		switch want {
		case "n":
			switch rapid.IntRange(0, 3).Draw(t, "leaf") {
			case 0:
				return strconv.FormatInt(rapid.SampledFrom(edgeInts).Draw(t, "lit"), 10)
			case 1:
				return strconv.FormatFloat(rapid.SampledFrom(edgeFloats).Draw(t, "lit"), 'e', -1, 64)
			}
			return pick("i", "j", "f", "g", "x", "y", "18446744073709551615", "90s")
		case "s":
			return pick("s", "r", "x", `"a"`, `'b'`, `""`)
		}
		return pick("b", "x", "true", "false")
	}
	form := rapid.IntRange(0, 7).Draw(t, "form")
	switch want {
	case "n":
		switch form {
		case 0, 1, 2, 3:
			return "(" + sub("n") + pick(" + ", " - ", " * ", " / ", " % ") + sub("n") + ")"
		case 4:
			return "-" + sub("n")
		case 5:
			return "(" + sub("b") + " ? " + sub("n") + " : " + sub("n") + ")"
		case 6:
			return pick("min", "max", "coalesce") + "(" + sub("n") + ", " + sub("n") + ")"
		}
		return pick("abs("+sub("n")+")", "div("+sub("n")+", "+sub("n")+")", "("+sub("n")+" ?? "+sub("n")+")")
	case "s":
		if form < 4 {
			return "(" + sub("s") + " + " + sub("s") + ")"
		}
		return "(" + sub("b") + " ? " + sub("s") + " : " + sub("s") + ")"
	}
	switch form {
	case 0:
		return "(" + sub("b") + pick(" && ", " || ", " and ", " or ") + sub("b") + ")"
	case 1:
		return pick("!", "not ") + sub("b")
	case 2, 3:
		return "(" + sub("n") + pick(" == ", " != ", " < ", " <= ", " > ", " >= ") + sub("n") + ")"
	case 4:
		return "(" + sub("s") + pick(" == ", " < ", " contains ", " startsWith ", " endsWith ") + sub("s") + ")"
	case 5:
		return "(" + sub("n") + pick(" in ", " not in ") + pick("["+sub("n")+", "+sub("n")+"]", sub("n")+".."+sub("n")) + ")"
	case 6:
		return "isNull(" + sub(pick("n", "s", "b")) + ")"
	}
	return `(` + sub("s") + ` matches "^a?b$")`
}

// unfolded checks without folding, for the reference.
func unfolded(src string) (*node, error) {
	root, err := parse(src)
	if err != nil {
		return nil, err
	}
	c := checker{env: propertyEnv, keep: true}
	return root, c.check(root)
}

func sameValue(a, b pipeline.Value) bool {
	if a.Kind == pipeline.Error || b.Kind == pipeline.Error {
		return a.Kind == b.Kind
	}
	if a.Kind == pipeline.Float && b.Kind == pipeline.Float {
		return a.Float() == b.Float() // big.Rat knows no negative zero
	}
	return a == b
}

// TestProgramEqualsReference evaluates random expressions over random slots, and compares with big numbers.
func TestProgramEqualsReference(t *testing.T) {
	compiled := 0
	rapid.Check(t, func(rt *rapid.T) {
		src := genSource(rt, rapid.SampledFrom([]string{"n", "b", "s"}).Draw(rt, "type"), rapid.IntRange(1, 4).Draw(rt, "depth"))
		root, err := unfolded(src)
		if err != nil {
			rt.Skip(err.Error())
		}
		p, err := Compile(src, propertyEnv)
		if err != nil {
			// a constant part that fails is refused at once
			return
		}
		compiled++
		again, err := Compile(p.String(), propertyEnv)
		if err != nil || again.String() != p.String() {
			rt.Fatalf("%s: canonical form %s gives %v, %v", src, p, again, err)
		}
		for range 4 {
			slots := make([]pipeline.Value, len(propertyEnv))
			for i, f := range propertyEnv {
				slots[i] = genValue(rt, f.kind)
			}
			want, got := reference(root, slots), p.Eval(slots)
			if !sameValue(want, got) {
				rt.Fatalf("%s over %v: %v, want %v", src, slots, got, want)
			}
			if other := again.Eval(slots); !sameValue(other, got) {
				rt.Fatalf("%s: canonical form %s gives %v, want %v", src, p, other, got)
			}
			ok, reason := p.True(slots)
			if ok != (got.Kind == pipeline.Bool && got.Bool()) || (reason != "") != (got.Kind != pipeline.Bool && !got.IsNull()) {
				rt.Fatalf("%s over %v: %v, but true is %v, %q", src, slots, got, ok, reason)
			}
			if k := p.Kind(); k != pipeline.Null && got.Kind != pipeline.Error && !got.IsNull() && kindsOf(got.Kind) != kindsOf(k) {
				rt.Fatalf("%s: kind %s, value %v", src, k, got)
			}
		}
	})
	t.Logf("%d expressions were compared", compiled)
	if compiled < 50 && !testing.Short() {
		t.Errorf("only %d expressions were compared", compiled)
	}
}

// FuzzCompile: no source panics or overflows the stack; what is accepted prints as something that means the same.
func FuzzCompile(f *testing.F) {
	for _, s := range []string{"temp > -60 && temp < 120", "a.b[0]['x y'] in [1, 2]", "$env[\"in\"] ?? 5", "1h30m + 0x1f", "x not in 1..3 ? 'a' : `b`",
		"s matches '^(a|b)+$'", "((((1))))", "!!!!b", "- - -1", "f == 1e300 * 1e300", "split(s, '/', -1)", "i = 3", "\"\\u00e9\\xff\"", "99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		paths, errFields := Fields(src)
		p, err := Compile(src, anyEnv{})
		if err != nil {
			e := err.(*Error)
			if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length > len(src) || e.Msg == "" {
				t.Fatalf("%q: bad error %+v", src, e)
			}
			return
		}
		if errFields != nil {
			t.Fatalf("%q: compiles, but Fields says %v", src, errFields)
		}
		for _, path := range paths {
			if len(path) == 0 {
				t.Fatalf("%q: empty path", src)
			}
		}
		again, err := Compile(p.String(), anyEnv{})
		if err != nil || again.String() != p.String() {
			t.Fatalf("%q: canonical form %q gives %v, %v", src, p, again, err)
		}
		for _, v := range []pipeline.Value{{}, pipeline.IntValue(math.MinInt64), pipeline.FloatValue(0.1), pipeline.StringValue("a/b"), pipeline.BoolValue(true), pipeline.JSONValue("[]")} {
			slots := []pipeline.Value{v}
			if a, b := p.Eval(slots), again.Eval(slots); !sameValue(a, b) {
				t.Fatalf("%q: %v, canonical form %q: %v", src, a, p, b)
			}
		}
	})
}

// anyEnv has every field, in one slot.
type anyEnv struct{}

func (anyEnv) Field(pipeline.Path) (int, pipeline.Kind, error) { return 0, pipeline.Null, nil }
