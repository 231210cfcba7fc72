package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
)

// matches compares the columns that a row of the test file names; others are not looked at. "" when all are equal.
func matches(want map[string]any, row []byte) string {
	d := json.NewDecoder(bytes.NewReader(row))
	d.UseNumber()
	var got map[string]any
	if err := d.Decode(&got); err != nil {
		return fmt.Sprintf("the result is no object, its columns cannot be compared (%v)", err)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		have, ok := got[name]
		if !ok {
			return fmt.Sprintf("it has no column %q%s", name, near(name, slices.Sorted(maps.Keys(got))))
		}
		if !equal(want[name], have) {
			return fmt.Sprintf("%s is %s, expected %s", name, text(have), text(want[name]))
		}
	}
	return ""
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// floatTolerance is relative: sums of floats depend on nothing but their order, but people write them down rounded.
const floatTolerance = 1e-9

// equal compares a value of the test file with one of a result. Whole numbers are compared exactly, fractions within 1e-9.
func equal(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k := range w {
			if v, ok := g[k]; !ok || !equal(w[k], v) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !equal(w[i], g[i]) {
				return false
			}
		}
		return true
	case nil, bool, string:
		return want == got
	}
	n, ok := got.(json.Number)
	return ok && equalNumbers(fmt.Sprint(want), n.String())
}

func equalNumbers(want, got string) bool {
	w, ok1 := new(big.Rat).SetString(want)
	g, ok2 := new(big.Rat).SetString(got)
	if !ok1 || !ok2 {
		return false
	}
	if w.Cmp(g) == 0 {
		return true
	}
	if w.IsInt() && g.IsInt() {
		return false
	}
	a, _ := w.Float64()
	b, _ := g.Float64()
	return math.Abs(a-b) <= floatTolerance*math.Max(math.Abs(a), math.Abs(b))
}
