package expr

import (
	"github.com/weirstream/weir/pipeline"
)

// compileValue makes the closure of a checked node. What can only be a bool goes through its truth value, which is faster,
// and comes back here for the reason when it fails.
func compileValue(n *node) valueFunc {
	switch n.kind {
	case nodeConst:
		v := n.value
		return func([]pipeline.Value) pipeline.Value { return v }
	case nodeField:
		slot := n.slot
		return func(s []pipeline.Value) pipeline.Value { return s[slot] }
	case nodeCond:
		return compileCond(n)
	case nodeCall:
		return compileCall(n)
	case nodeUnary:
		if n.op == "-" {
			a := compileValue(n.kids[0])
			return func(s []pipeline.Value) pipeline.Value { return negate(a(s)) }
		}
	case nodeBinary:
		if f := compileArithmetic(n); f != nil {
			return f
		}
		if n.op == "??" {
			return compileCoalesce(n.kids)
		}
	}
	pred, why := compilePred(n), compileWhy(n)
	return func(s []pipeline.Value) pipeline.Value {
		t := pred(s)
		if t == triError {
			return why(s)
		}
		return triValue(t)
	}
}

func operation(op string) func(a, b pipeline.Value) pipeline.Value {
	switch op {
	case "+":
		return add
	case "-":
		return subtract
	case "*":
		return multiply
	case "/":
		return divide
	case "%":
		return remainder
	}
	return nil
}

// compileArithmetic gives nil for an operator that is none.
func compileArithmetic(n *node) valueFunc {
	f := operation(n.op)
	if f == nil {
		return nil
	}
	left, right := n.kids[0], n.kids[1]
	if left.kind == nodeField && right.isConst() {
		return arithmeticSlotConst(n.op, left.slot, right.value)
	}
	a, b := compileValue(left), compileValue(right)
	switch n.op { // direct calls: a call through f cannot be inlined
	case "+":
		return func(s []pipeline.Value) pipeline.Value { return add(a(s), b(s)) }
	case "-":
		return func(s []pipeline.Value) pipeline.Value { return subtract(a(s), b(s)) }
	case "*":
		return func(s []pipeline.Value) pipeline.Value { return multiply(a(s), b(s)) }
	}
	return func(s []pipeline.Value) pipeline.Value { return f(a(s), b(s)) }
}

// arithmeticSlotConst is slot op constant, the most common shape: unit conversions.
func arithmeticSlotConst(op string, slot int, c pipeline.Value) valueFunc {
	f := operation(op)
	slow := func(s []pipeline.Value) pipeline.Value { return f(s[slot], c) }
	y, ok := c.AsFloat()
	if !ok {
		return slow
	}
	// With a float slot the constant becomes a float, once.
	switch op {
	case "+":
		return func(s []pipeline.Value) pipeline.Value {
			if v := &s[slot]; v.Kind == pipeline.Float {
				return number(v.Float() + y)
			}
			return add(s[slot], c)
		}
	case "-":
		return func(s []pipeline.Value) pipeline.Value {
			if v := &s[slot]; v.Kind == pipeline.Float {
				return number(v.Float() - y)
			}
			return subtract(s[slot], c)
		}
	case "*":
		return func(s []pipeline.Value) pipeline.Value {
			if v := &s[slot]; v.Kind == pipeline.Float {
				return number(float64(v.Float() * y))
			}
			return multiply(s[slot], c)
		}
	}
	return slow
}

// compileCoalesce gives the first value that is not null.
func compileCoalesce(kids []*node) valueFunc {
	all := compileAll(kids)
	return func(s []pipeline.Value) pipeline.Value {
		for _, f := range all {
			if v := f(s); !v.IsNull() {
				return v
			}
		}
		return pipeline.Value{}
	}
}

func compileAll(kids []*node) []valueFunc {
	all := make([]valueFunc, len(kids))
	for i, k := range kids {
		all[i] = compileValue(k)
	}
	return all
}

// compileCond takes the else branch when the condition is null.
func compileCond(n *node) valueFunc {
	cond, why := compilePred(n.kids[0]), compileValue(n.kids[0])
	yes, no := compileValue(n.kids[1]), compileValue(n.kids[2])
	return func(s []pipeline.Value) pipeline.Value {
		switch cond(s) {
		case triTrue:
			return yes(s)
		case triError:
			return notBool("?", why(s))
		}
		return no(s)
	}
}

// compileCall calls by number of arguments: a slice of them would have to be allocated.
func compileCall(n *node) valueFunc {
	if n.op == "coalesce" {
		return compileCoalesce(n.kids)
	}
	all := compileAll(n.kids)
	one, two, three := n.call.one, n.call.two, n.call.three
	switch {
	case one != nil && len(all) == 1:
		a := all[0]
		return func(s []pipeline.Value) pipeline.Value { return one(a(s)) }
	case three != nil && len(all) == 3:
		a, b, c := all[0], all[1], all[2]
		return func(s []pipeline.Value) pipeline.Value { return three(a(s), b(s), c(s)) }
	}
	return func(s []pipeline.Value) pipeline.Value {
		v := all[0](s)
		for _, f := range all[1:] {
			v = two(v, f(s))
		}
		return v
	}
}
