package expr

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strings"

	"github.com/weirstream/weir/pipeline"
)

// reference is a slow evaluator over the checked, unfolded tree, written from docs/expressions.md: integers are big.Int and
// are checked against their range at the end of each operation; comparisons go through big.Rat.
func reference(n *node, s []pipeline.Value) pipeline.Value {
	failed := pipeline.ErrorValue("failed")
	kid := func(i int) pipeline.Value { return reference(n.kids[i], s) }
	switch n.kind {
	case nodeConst:
		return n.value
	case nodeField:
		return s[n.slot]
	case nodeUnary:
		v := kid(0)
		switch {
		case v.IsNull():
			return v
		case n.op == "!" && v.Kind == pipeline.Bool:
			return pipeline.BoolValue(!v.Bool())
		case n.op == "-" && v.IsNumber():
			return referenceArithmetic("-", pipeline.IntValue(0), v)
		}
		return failed
	case nodeCond:
		switch c := kid(0); {
		case c.IsNull() || c.Kind == pipeline.Bool && !c.Bool():
			return kid(2)
		case c.Kind == pipeline.Bool:
			return kid(1)
		}
		return failed
	case nodeIn:
		return referenceIn(n, s)
	case nodeCall:
		return referenceCall(n, s)
	}
	switch n.op {
	case "&&", "||":
		stop := n.op == "||"
		a := kid(0)
		switch {
		case a.Kind != pipeline.Bool && !a.IsNull():
			return failed
		case a.Kind == pipeline.Bool && a.Bool() == stop:
			return a
		}
		b := kid(1)
		switch {
		case b.Kind != pipeline.Bool && !b.IsNull():
			return failed
		case b.Kind == pipeline.Bool && b.Bool() == stop:
			return b
		case a.IsNull() || b.IsNull():
			return pipeline.Value{}
		}
		return pipeline.BoolValue(!stop)
	case "??":
		if a := kid(0); !a.IsNull() {
			return a
		}
		return kid(1)
	case "==", "!=", "<", "<=", ">", ">=":
		return referenceCompare(n.op, kid(0), kid(1))
	case "contains", "startsWith", "endsWith", "matches":
		return referenceText(n.op, kid(0), kid(1))
	}
	return referenceArithmetic(n.op, kid(0), kid(1))
}

func rat(v pipeline.Value) *big.Rat {
	switch v.Kind {
	case pipeline.Int:
		return new(big.Rat).SetInt64(v.Int())
	case pipeline.Uint:
		return new(big.Rat).SetInt(new(big.Int).SetUint64(v.Uint()))
	}
	return new(big.Rat).SetFloat64(v.Float())
}

// bothOrNeither gives null or an error where one of the operands is.
func bothOrNeither(a, b pipeline.Value) (pipeline.Value, bool) {
	switch {
	case a.Kind == pipeline.Error:
		return a, false
	case b.Kind == pipeline.Error:
		return b, false
	case a.IsNull() || b.IsNull():
		return pipeline.Value{}, false
	}
	return pipeline.Value{}, true
}

func referenceCompare(op string, a, b pipeline.Value) pipeline.Value {
	v, ok := bothOrNeither(a, b)
	if !ok {
		return v
	}
	c := 0
	switch {
	case a.IsNumber() && b.IsNumber():
		c = rat(a).Cmp(rat(b))
	case a.Kind == pipeline.String && b.Kind == pipeline.String:
		c = strings.Compare(a.Str, b.Str)
	case op != "==" && op != "!=":
		return pipeline.ErrorValue("failed")
	case a.Kind != b.Kind || a != b:
		c = 1
	}
	return pipeline.BoolValue(map[string]bool{"==": c == 0, "!=": c != 0, "<": c < 0, "<=": c <= 0, ">": c > 0, ">=": c >= 0}[op])
}

func referenceText(op string, a, b pipeline.Value) pipeline.Value {
	v, ok := bothOrNeither(a, b)
	if !ok {
		return v
	}
	if a.Kind != pipeline.String || b.Kind != pipeline.String {
		return pipeline.ErrorValue("failed")
	}
	switch op {
	case "contains":
		return pipeline.BoolValue(strings.Contains(a.Str, b.Str))
	case "startsWith":
		return pipeline.BoolValue(strings.HasPrefix(a.Str, b.Str))
	case "endsWith":
		return pipeline.BoolValue(strings.HasSuffix(a.Str, b.Str))
	}
	return pipeline.BoolValue(regexp.MustCompile(b.Str).MatchString(a.Str))
}

func referenceIn(n *node, s []pipeline.Value) pipeline.Value {
	v := reference(n.kids[0], s)
	var out pipeline.Value
	if n.ranged {
		a := referenceCompare(">=", v, reference(n.kids[1], s))
		b := referenceCompare("<=", v, reference(n.kids[2], s))
		switch {
		case a.Kind == pipeline.Error || b.Kind == pipeline.Error:
			return pipeline.ErrorValue("failed")
		case a.Kind == pipeline.Bool && !a.Bool() || b.Kind == pipeline.Bool && !b.Bool():
			out = pipeline.BoolValue(false)
		case a.IsNull() || b.IsNull():
			return pipeline.Value{}
		default:
			out = pipeline.BoolValue(true)
		}
	} else {
		out = pipeline.BoolValue(false)
		for _, k := range n.kids[1:] {
			e := referenceCompare("==", v, reference(k, s))
			if e.Kind == pipeline.Error {
				return e
			}
			if e.Kind == pipeline.Bool && e.Bool() {
				out = e
				break
			}
			if e.IsNull() {
				out = e
			}
		}
	}
	if n.negate && out.Kind == pipeline.Bool {
		return pipeline.BoolValue(!out.Bool())
	}
	return out
}

var (
	integerLow  = new(big.Int).Lsh(big.NewInt(-1), 63)
	integerHigh = new(big.Int).SetUint64(math.MaxUint64)
)

func bigInt(v pipeline.Value) *big.Int { return new(big.Int).Set(rat(v).Num()) }

func fromBig(i *big.Int) pipeline.Value {
	switch {
	case i.Cmp(integerLow) < 0 || i.Cmp(integerHigh) > 0:
		return pipeline.ErrorValue("failed")
	case i.IsInt64():
		return pipeline.IntValue(i.Int64())
	}
	return pipeline.UintValue(i.Uint64())
}

func referenceArithmetic(op string, a, b pipeline.Value) pipeline.Value {
	v, ok := bothOrNeither(a, b)
	if !ok {
		return v
	}
	if op == "+" && a.Kind == pipeline.String && b.Kind == pipeline.String {
		return pipeline.StringValue(a.Str + b.Str)
	}
	if !a.IsNumber() || !b.IsNumber() {
		return pipeline.ErrorValue("failed")
	}
	zero := rat(b).Sign() == 0
	if a.Kind != pipeline.Float && b.Kind != pipeline.Float && op != "/" {
		x, y, out := bigInt(a), bigInt(b), new(big.Int)
		switch op {
		case "+":
			return fromBig(out.Add(x, y))
		case "-":
			return fromBig(out.Sub(x, y))
		case "*":
			return fromBig(out.Mul(x, y))
		}
		if zero {
			return pipeline.ErrorValue("failed")
		}
		if op == "div" {
			return fromBig(out.Quo(x, y))
		}
		return fromBig(out.Rem(x, y))
	}
	return referenceFloat(op, a, b, zero)
}

// referenceFloat rounds both operands to float64, computes exactly, and rounds once.
func referenceFloat(op string, a, b pipeline.Value, zero bool) pipeline.Value {
	x, _ := rat(a).Float64()
	y, _ := rat(b).Float64()
	p, q, out := new(big.Rat).SetFloat64(x), new(big.Rat).SetFloat64(y), new(big.Rat)
	switch op {
	case "+":
		out.Add(p, q)
	case "-":
		out.Sub(p, q)
	case "*":
		out.Mul(p, q)
	case "/", "%":
		if zero {
			return pipeline.ErrorValue("failed")
		}
		out.Quo(p, q)
		if op == "%" {
			return pipeline.FloatValue(math.Mod(x, y))
		}
	default:
		return pipeline.ErrorValue("failed")
	}
	f, _ := out.Float64()
	if math.IsInf(f, 0) {
		return pipeline.ErrorValue("failed")
	}
	return pipeline.FloatValue(f)
}

func referenceCall(n *node, s []pipeline.Value) pipeline.Value {
	var args []pipeline.Value
	for _, k := range n.kids {
		args = append(args, reference(k, s))
	}
	if n.op == "coalesce" {
		for _, a := range args {
			if !a.IsNull() {
				return a
			}
		}
		return pipeline.Value{}
	}
	for _, a := range args {
		if a.Kind == pipeline.Error {
			return a
		}
	}
	if n.op == "isNull" {
		return pipeline.BoolValue(args[0].IsNull())
	}
	for _, a := range args {
		if a.IsNull() {
			return a
		}
	}
	failed := pipeline.ErrorValue("failed")
	switch n.op {
	case "abs":
		if !args[0].IsNumber() {
			return failed
		}
		if rat(args[0]).Sign() < 0 {
			return referenceArithmetic("-", pipeline.IntValue(0), args[0])
		}
		return args[0]
	case "div":
		if args[0].Kind == pipeline.Float || args[1].Kind == pipeline.Float {
			return failed
		}
		return referenceArithmetic("div", args[0], args[1])
	case "min", "max":
		best := args[0]
		for _, a := range args {
			if !a.IsNumber() {
				return failed
			}
			if c := rat(a).Cmp(rat(best)); n.op == "min" && c < 0 || n.op == "max" && c > 0 {
				best = a
			}
		}
		return best
	}
	panic(fmt.Sprintf("no reference for %s", n.op))
}
