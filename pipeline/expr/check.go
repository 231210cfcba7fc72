package expr

import (
	"regexp"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// checker resolves fields and functions, infers kinds, refuses what can never work, and folds constants.
type checker struct {
	env  Env
	keep bool // do not fold: set by tests only
}

func (c *checker) check(n *node) error {
	for _, k := range n.kids {
		if err := c.check(k); err != nil {
			return err
		}
	}
	var err *Error
	switch n.kind {
	case nodeConst:
		if n.value.Kind != pipeline.Null {
			n.kinds = kindsOf(n.value.Kind)
		}
	case nodeField:
		err = c.field(n)
	case nodeUnary:
		err = checkUnary(n)
	case nodeBinary:
		err = checkBinary(n)
	case nodeIn:
		err = checkIn(n)
	case nodeCond:
		err = checkCond(n)
	case nodeCall:
		err = checkCall(n)
	}
	if err != nil {
		return err
	}
	if c.keep {
		return nil
	}
	return fold(n)
}

func (c *checker) field(n *node) *Error {
	slot, kind, err := c.env.Field(n.path)
	if err != nil {
		e := n.fail("%s", err.Error())
		if names, ok := c.env.(Namer); ok {
			e.near(n.path.String(), names.Names())
		}
		return e
	}
	n.slot, n.kinds = slot, kindsOf(kind)
	return nil
}

// want refuses a part that can be none of the kinds.
func want(n *node, op string, kinds kindSet) *Error {
	if n.can(kinds) {
		return nil
	}
	return n.fail("%s wants %s, found %s", op, kinds, n.kinds)
}

func checkUnary(n *node) *Error {
	kid := n.kids[0]
	if n.op == "!" {
		n.kinds = boolMask
		return want(kid, "!", boolMask)
	}
	n.kinds = arithmetic(kid.kinds)
	return want(kid, "-", numberMask)
}

// arithmetic is what an operation on these kinds of numbers may give.
func arithmetic(kinds ...kindSet) kindSet {
	result := intMask
	for _, k := range kinds {
		switch k & numberMask {
		case floatMask:
			return floatMask
		case intMask:
		default:
			result = numberMask
		}
	}
	return result
}

func checkBinary(n *node) *Error {
	left, right := n.kids[0], n.kids[1]
	switch n.op {
	case "&&", "||":
		n.kinds = boolMask
		return first(want(left, n.op, boolMask), want(right, n.op, boolMask))
	case "??":
		n.kinds = left.kinds | right.kinds
		return nil
	case "==", "!=", "<", "<=", ">", ">=":
		n.kinds = boolMask
		return checkComparison(n, left, right)
	case "contains", "startsWith", "endsWith":
		n.kinds = boolMask
		return first(want(left, n.op, textMask), want(right, n.op, textMask))
	case "matches":
		n.kinds = boolMask
		return first(want(left, n.op, textMask), checkPattern(n, right))
	case "+":
		return checkPlus(n, left, right)
	case "/":
		n.kinds = floatMask
	default:
		n.kinds = arithmetic(left.kinds, right.kinds)
	}
	return first(want(left, n.op, numberMask), want(right, n.op, numberMask))
}

func first(errs ...*Error) *Error {
	for _, e := range errs {
		if e != nil {
			return e
		}
	}
	return nil
}

func checkPlus(n, left, right *node) *Error {
	err := first(want(left, "+", numberMask|textMask), want(right, "+", numberMask|textMask))
	if err != nil {
		return err
	}
	texts, numbers := left.can(textMask) && right.can(textMask), left.can(numberMask) && right.can(numberMask)
	switch {
	case !texts && !numbers:
		e := n.fail("+ joins two numbers or two texts, found %s and %s", left.kinds, right.kinds)
		e.Suggest = "string"
		return e
	case texts && numbers:
		n.kinds = textMask | arithmetic(left.kinds, right.kinds)
	case texts:
		n.kinds = textMask
	default:
		n.kinds = arithmetic(left.kinds, right.kinds)
	}
	return nil
}

func checkComparison(n, left, right *node) *Error {
	for _, k := range n.kids {
		if k.kind == nodeConst && k.value.IsNull() {
			e := n.fail("a comparison with null is never true: ask isNull(%s)", otherKid(n, k))
			e.Suggest = "isNull"
			return e
		}
	}
	if n.op != "==" && n.op != "!=" {
		if err := first(want(left, n.op, numberMask|textMask), want(right, n.op, numberMask|textMask)); err != nil {
			return err
		}
	}
	return comparable(n, left, right)
}

func otherKid(n, k *node) *node {
	if n.kids[0] == k {
		return n.kids[1]
	}
	return n.kids[0]
}

// comparable refuses two parts that can never be of one kind.
func comparable(n, left, right *node) *Error {
	l, r := widen(left.kinds), widen(right.kinds)
	if l == 0 || r == 0 || l&r != 0 {
		return nil
	}
	return n.fail("%s compares two values of one kind, found %s and %s", n.op, left.kinds, right.kinds)
}

// widen makes all numbers one kind.
func widen(s kindSet) kindSet {
	if s&numberMask != 0 {
		return s | numberMask
	}
	return s
}

func checkPattern(n, pattern *node) *Error {
	if !pattern.isConst() || pattern.value.Kind != pipeline.String {
		return pattern.fail("the pattern of \"matches\" must be a constant text")
	}
	re, err := regexp.Compile(pattern.value.Str)
	if err != nil {
		return pattern.fail("bad pattern: %s", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	n.pattern = re
	return nil
}

func checkIn(n *node) *Error {
	n.kinds = boolMask
	value := n.kids[0]
	for _, k := range n.kids[1:] {
		if n.ranged {
			if err := want(k, "a range", numberMask); err != nil {
				return err
			}
		}
		if k.isConst() && k.value.IsNull() {
			return k.fail("nothing equals null: ask isNull(%s)", value)
		}
		if err := comparable(n, value, k); err != nil {
			return err
		}
	}
	return nil
}

func checkCond(n *node) *Error {
	n.kinds = n.kids[1].kinds | n.kids[2].kinds
	return want(n.kids[0], "?", boolMask)
}

func checkCall(n *node) *Error {
	f, ok := functions[n.op]
	if n.op == "now" {
		e := n.fail("expressions read no clock: take the event time, or $received, the time of arrival")
		e.Suggest = "$time"
		return e
	}
	if !ok {
		return n.fail("there is no function %s", n.op).near(n.op, functionNames())
	}
	if len(n.kids) < f.min || len(n.kids) > f.max {
		return n.fail("%s takes %s, found %d", f.usage, argumentCount(f.min, f.max), len(n.kids))
	}
	for i, k := range n.kids {
		kinds := f.args[min(i, len(f.args)-1)]
		if !k.can(kinds) {
			return k.fail("%s: argument %d wants %s, found %s", f.usage, i+1, kinds, k.kinds)
		}
	}
	n.call = f
	n.kinds = f.result(n.kids)
	return nil
}

// fold replaces an operation on constants by its value.
func fold(n *node) error {
	if n.kind == nodeConst || n.kind == nodeField {
		return nil
	}
	for _, k := range n.kids {
		if !k.isConst() {
			return nil
		}
	}
	v := compileValue(n)(nil)
	if v.Kind == pipeline.Error {
		return n.fail("%s", v.Str)
	}
	n.kind, n.value, n.kids = nodeConst, v, nil
	n.kinds = 0
	if !v.IsNull() {
		n.kinds = kindsOf(v.Kind)
	}
	return nil
}
