package expr

import (
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// compilePred makes the truth value of a node.
func compilePred(n *node) predFunc {
	switch {
	case n.kind == nodeUnary && n.op == "!":
		a := compilePred(n.kids[0])
		return func(s []pipeline.Value) tri { return not(a(s)) }
	case n.kind == nodeIn:
		return compileIn(n)
	case n.kind != nodeBinary:
		return predOfValue(n)
	}
	switch n.op {
	case "&&":
		a, b := compilePred(n.kids[0]), compilePred(n.kids[1])
		return func(s []pipeline.Value) tri {
			t := a(s)
			if t == triFalse || t == triError {
				return t
			}
			if u := b(s); u != triTrue {
				return u
			}
			return t
		}
	case "||":
		a, b := compilePred(n.kids[0]), compilePred(n.kids[1])
		return func(s []pipeline.Value) tri {
			t := a(s)
			if t == triTrue || t == triError {
				return t
			}
			if u := b(s); u != triFalse {
				return u
			}
			return t
		}
	case "==", "!=", "<", "<=", ">", ">=":
		return compileComparison(n)
	case "contains", "startsWith", "endsWith", "matches":
		return compileTextTest(n)
	}
	return predOfValue(n)
}

func predOfValue(n *node) predFunc {
	f := compileValue(n)
	return func(s []pipeline.Value) tri { return truth(f(s)) }
}

// compileWhy makes the value form that finds the reason of an error; it is as good as compilePred, and slower.
func compileWhy(n *node) valueFunc {
	all := compileAll(n.kids)
	op := n.op
	switch {
	case n.kind == nodeUnary:
		return func(s []pipeline.Value) pipeline.Value { return notBool(op, all[0](s)) }
	case n.kind == nodeIn:
		return func(s []pipeline.Value) pipeline.Value { return whyIn(n, all, s) }
	case op == "&&" || op == "||":
		return func(s []pipeline.Value) pipeline.Value {
			if v := all[0](s); truth(v) == triError {
				return notBool(op, v)
			}
			return notBool(op, all[1](s))
		}
	case op == "contains" || op == "startsWith" || op == "endsWith" || op == "matches":
		return func(s []pipeline.Value) pipeline.Value { return refuse(op, all[0](s), all[1](s)) }
	}
	return func(s []pipeline.Value) pipeline.Value { return compareValue(op, all[0](s), all[1](s)) }
}

// outcomes are the truth of a comparison for less, equal, greater.
func outcomes(op string) [3]tri {
	if op == "==" || op == "!=" {
		eq := triOf(op == "==")
		return [3]tri{not(eq), eq, not(eq)}
	}
	return [3]tri{triOf(holds(op, -1)), triOf(holds(op, 0)), triOf(holds(op, 1))}
}

var mirrored = map[string]string{"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}

func compileComparison(n *node) predFunc {
	op, left, right := n.op, n.kids[0], n.kids[1]
	if left.isConst() && right.kind == nodeField {
		op, left, right = mirrored[op], right, left
	}
	if left.kind == nodeField && right.isConst() {
		switch right.value.Kind {
		case pipeline.Int:
			return compareSlotInt(op, left.slot, right.value)
		case pipeline.Float:
			return compareSlotFloat(op, left.slot, right.value)
		case pipeline.String:
			if op == "==" || op == "!=" {
				return equalSlotText(op, left.slot, right.value)
			}
		}
	}
	a, b := compileValue(left), compileValue(right)
	out := outcomes(op)
	return func(s []pipeline.Value) tri {
		v, w := a(s), b(s)
		if v.Kind == pipeline.Float && w.Kind == pipeline.Float {
			return out[order(v.Float(), w.Float())+1]
		}
		if v.Kind == pipeline.Int && w.Kind == pipeline.Int {
			return out[order(v.Int(), w.Int())+1]
		}
		return compare(op, v, w)
	}
}

func compareSlotInt(op string, slot int, c pipeline.Value) predFunc {
	out, i, f := outcomes(op), c.Int(), float64(c.Int())
	exact := i > -1<<53 && i < 1<<53 // then the float of i is i
	return func(s []pipeline.Value) tri {
		v := &s[slot]
		if v.Kind == pipeline.Int {
			return out[order(v.Int(), i)+1]
		}
		if v.Kind == pipeline.Float && exact {
			return out[order(v.Float(), f)+1]
		}
		return compare(op, *v, c)
	}
}

func compareSlotFloat(op string, slot int, c pipeline.Value) predFunc {
	out, f := outcomes(op), c.Float()
	return func(s []pipeline.Value) tri {
		v := &s[slot]
		if v.Kind == pipeline.Float {
			return out[order(v.Float(), f)+1]
		}
		return compare(op, *v, c)
	}
}

func equalSlotText(op string, slot int, c pipeline.Value) predFunc {
	same, differ := triOf(op == "=="), triOf(op == "!=")
	text := c.Str
	return func(s []pipeline.Value) tri {
		v := &s[slot]
		if v.Kind == pipeline.String {
			if v.Str == text {
				return same
			}
			return differ
		}
		return compare(op, *v, c)
	}
}

func compileTextTest(n *node) predFunc {
	a := compileValue(n.kids[0])
	if n.op == "matches" {
		re := n.pattern
		return func(s []pipeline.Value) tri {
			v := a(s)
			if v.Kind == pipeline.String {
				return triOf(re.MatchString(v.Str))
			}
			if v.IsNull() {
				return triNull
			}
			return triError
		}
	}
	b := compileValue(n.kids[1])
	test := strings.Contains
	switch n.op {
	case "startsWith":
		test = strings.HasPrefix
	case "endsWith":
		test = strings.HasSuffix
	}
	return func(s []pipeline.Value) tri {
		v, w := a(s), b(s)
		switch {
		case v.Kind == pipeline.String && w.Kind == pipeline.String:
			return triOf(test(v.Str, w.Str))
		case v.Kind == pipeline.Error || w.Kind == pipeline.Error:
			return triError
		case v.IsNull() || w.IsNull():
			return triNull
		}
		return triError
	}
}
