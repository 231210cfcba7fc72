package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

// textKind is a non-empty string that keeps its place. check gives the reason against a value.
type textKind struct {
	what    string
	pattern string
	empty   bool
	check   func(string) string
	allowed string
}

func (k textKind) label() string { return k.what }
func (k textKind) schema() map[string]any {
	out := map[string]any{"type": "string"}
	if k.pattern != "" {
		out["pattern"] = k.pattern
	}
	if !k.empty {
		out["minLength"] = 1
	}
	return out
}

func (textKind) reads(*plan.Text) {}
func (k textKind) read(r *reader, n *node, place any) {
	into := place.(*plan.Text)
	// A number is taken as written: 0007 is a fine name, and topics may be digits.
	if n.shape != shapeScalar || n.scalar == scalarBool {
		r.wrong(n, k.what)
		return
	}
	if n.text == "" && !k.empty {
		r.wrong(n, k.what)
		return
	}
	if k.check != nil {
		if reason := k.check(n.text); reason != "" {
			r.problems.Add(n.pos, "", k.allowed, "%s: %s", quote(n.text), reason)
		}
	}
	*into = n.toText()
}

// nameKind is a name that follows the rules of names.
func nameKind(what string, dots bool) textKind {
	pattern := plan.NamePattern
	if dots {
		pattern = plan.NamePatternDotted
	}
	return textKind{what: what, pattern: pattern, allowed: plan.NameAllowed, check: func(s string) string { return plan.CheckName(s, dots) }}
}

// fieldNameKind is the name of a column.
var fieldNameKind = textKind{what: "a field name", allowed: plan.FieldNameAllowed, check: plan.CheckFieldName}

// stringKind is textKind for values whose place does not matter later.
type stringKind struct{ of textKind }

func (k stringKind) label() string          { return k.of.label() }
func (k stringKind) schema() map[string]any { return k.of.schema() }
func (stringKind) reads(*string)            {}
func (k stringKind) read(r *reader, n *node, place any) {
	into := place.(*string)
	var t plan.Text
	k.of.read(r, n, &t)
	*into = t.Value
}

// choiceKind is one of a few words. words maps what may be written to what it means.
type choiceKind struct {
	words []string
	means map[string]string // other spellings: Flink's
}

func (k choiceKind) label() string { return "one of " + strings.Join(k.words, ", ") }
func (k choiceKind) schema() map[string]any {
	all := slices.Clone(k.words)
	for other := range k.means {
		all = append(all, other)
	}
	slices.Sort(all[len(k.words):])
	return map[string]any{"enum": all}
}

func (choiceKind) reads(*string) {}
func (k choiceKind) read(r *reader, n *node, place any) {
	into := place.(*string)
	if n.shape == shapeScalar {
		if slices.Contains(k.words, n.text) {
			*into = n.text
			return
		}
		if word, ok := k.means[n.text]; ok {
			*into = word
			return
		}
		r.problems.Add(n.pos, suggest.Nearest(n.text, k.words), "allowed are "+strings.Join(k.words, ", "), "found %s", n.describe())
		return
	}
	r.wrong(n, k.label())
}

// choiceText is a choice that keeps its place.
type choiceText struct{ choiceKind }

func (choiceText) reads(*plan.Text) {}
func (k choiceText) read(r *reader, n *node, place any) {
	into := place.(*plan.Text)
	var word string
	k.choiceKind.read(r, n, &word)
	*into = plan.Text{Value: word, Pos: n.pos}
}

type boolKind struct{}

func (boolKind) label() string          { return "true or false" }
func (boolKind) schema() map[string]any { return map[string]any{"type": "boolean"} }
func (boolKind) reads(*bool)            {}
func (k boolKind) read(r *reader, n *node, place any) {
	into := place.(*bool)
	switch {
	case n.shape == shapeScalar && n.scalar == scalarBool && strings.EqualFold(n.text, "true"):
		*into = true
	case n.shape == shapeScalar && n.scalar == scalarBool && strings.EqualFold(n.text, "false"):
		*into = false
	default:
		r.wrong(n, k.label())
	}
}

// intKind is a whole number in [least, most].
type intKind struct{ least, most int }

func (k intKind) label() string { return "a whole number " + between(k.least, k.most, math.MaxInt32) }
func (k intKind) schema() map[string]any {
	out := map[string]any{"type": "integer", "minimum": k.least}
	if k.most < math.MaxInt32 {
		out["maximum"] = k.most
	}
	return out
}

func between[N int | int64 | float64](least, most, unlimited N) string {
	if least == most {
		return fmt.Sprintf("of %v, the only value", least)
	}
	if most >= unlimited {
		return fmt.Sprintf("of at least %v", least)
	}
	return fmt.Sprintf("from %v to %v", least, most)
}

func (intKind) reads(*int) {}
func (k intKind) read(r *reader, n *node, place any) {
	into := place.(*int)
	i, err := strconv.Atoi(n.text)
	switch {
	case n.shape != shapeScalar || n.scalar != scalarInt:
		r.wrong(n, k.label())
	case i > k.most || err != nil && !strings.HasPrefix(n.text, "-"):
		r.wrong(n, fmt.Sprintf("a whole number from %d to %d", k.least, k.most)) // a bound that goes without saying, but for this
	case i < k.least || err != nil:
		r.wrong(n, k.label())
	default:
		*into = i
	}
}

// floatKind is a finite number in [least, most].
type floatKind struct{ least, most float64 }

func (k floatKind) label() string {
	if k.most >= 1e9 {
		return "a number " + between(k.least, math.MaxFloat64, math.MaxFloat64)
	}
	return "a number " + between(k.least, k.most, math.MaxFloat64)
}

func (k floatKind) schema() map[string]any {
	out := map[string]any{"type": "number", "minimum": k.least}
	if k.most < math.MaxFloat64 {
		out["maximum"] = k.most
	}
	return out
}

func (floatKind) reads(*float64) {}
func (k floatKind) read(r *reader, n *node, place any) {
	into := place.(*float64)
	f, err := strconv.ParseFloat(n.text, 64)
	if n.shape != shapeScalar || n.scalar != scalarFloat && n.scalar != scalarInt || err != nil || !(f >= k.least && f <= k.most) {
		r.wrong(n, k.label())
		return
	}
	*into = f
}
