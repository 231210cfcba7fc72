package expr

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// tri is a truth value of SQL's logic, or an error whose reason the value form gives.
type tri uint8

const (
	triFalse tri = iota
	triTrue
	triNull
	triError
)

type predFunc func(slots []pipeline.Value) tri

func triOf(b bool) tri {
	if b {
		return triTrue
	}
	return triFalse
}

// triValue is the value form of a truth value that is no error.
func triValue(t tri) pipeline.Value {
	if t == triNull {
		return pipeline.Value{}
	}
	return pipeline.BoolValue(t == triTrue)
}

// truth reads a value as a truth value.
func truth(v pipeline.Value) tri {
	switch v.Kind {
	case pipeline.Bool:
		return triOf(v.Bool())
	case pipeline.Null:
		return triNull
	}
	return triError
}

// notBool is the value of a logical operation on a value that truth refuses.
func notBool(op string, v pipeline.Value) pipeline.Value {
	if v.Kind == pipeline.Error {
		return v
	}
	return pipeline.ErrorValue(fmt.Sprintf("%s wants a bool, found %s", op, v.Kind))
}

// equal compares two values: numbers by value, anything else by kind and content. Values of different kinds differ.
func equal(a, b pipeline.Value) tri {
	switch {
	case a.Kind == pipeline.Error || b.Kind == pipeline.Error:
		return triError
	case a.IsNull() || b.IsNull():
		return triNull
	case a.IsNumber() && b.IsNumber():
		return triOf(compareNumbers(a, b) == 0)
	case a.Kind != b.Kind:
		return triFalse
	case a.Kind == pipeline.Bool:
		return triOf(a.Num == b.Num)
	}
	return triOf(a.Str == b.Str)
}

// ordered compares two numbers or two texts; ok is false for anything else.
func ordered(a, b pipeline.Value) (c int, ok bool) {
	switch {
	case a.IsNumber() && b.IsNumber():
		return compareNumbers(a, b), true
	case a.Kind == pipeline.String && b.Kind == pipeline.String:
		return order(a.Str, b.Str), true
	}
	return 0, false
}

// holds tells whether a comparison with outcome c is true.
func holds(op string, c int) bool {
	switch op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case ">=":
		return c >= 0
	}
	panic("BUG: " + op + " is no comparison")
}

// compare is the truth of a comparison.
func compare(op string, a, b pipeline.Value) tri {
	switch op {
	case "==":
		return equal(a, b)
	case "!=":
		return not(equal(a, b))
	}
	c, ok := ordered(a, b)
	switch {
	case ok:
		return triOf(holds(op, c))
	case a.Kind == pipeline.Error || b.Kind == pipeline.Error:
		return triError
	case a.IsNull() || b.IsNull():
		return triNull
	}
	return triError
}

func not(t tri) tri {
	switch t {
	case triFalse:
		return triTrue
	case triTrue:
		return triFalse
	}
	return t
}

// compareValue is compare with the reason of an error.
func compareValue(op string, a, b pipeline.Value) pipeline.Value {
	t := compare(op, a, b)
	if t == triError {
		return refuse(op, a, b)
	}
	return triValue(t)
}
