package expr

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/weirstream/weir/pipeline"
)

// Integers are exact from -2^63 to 2^64-1 whatever their kind; a result outside is an error. An operation with a float
// on either side is done in float64, each operation rounded once (never fused), and an infinite result is an error.

// The values that failed computations give. They are constants, so that failing costs no memory.
const (
	reasonOverflow = "integer overflow: the result is not in -2^63..2^64-1"
	reasonRange    = "number overflow: the result is not a finite float64"
	reasonZero     = "division by zero"
)

func number(f float64) pipeline.Value {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return pipeline.ErrorValue(reasonRange)
	}
	return pipeline.Value{Kind: pipeline.Float, Num: math.Float64bits(f)}
}

// magnitude splits an integer value.
func magnitude(v pipeline.Value) (m uint64, negative bool) {
	if v.Kind == pipeline.Int && v.Int() < 0 {
		return -v.Num, true
	}
	return v.Num, false
}

// integer joins sign and magnitude; carry tells that the magnitude overflowed.
func integer(m uint64, negative, carry bool) pipeline.Value {
	switch {
	case carry || negative && m > 1<<63:
		return pipeline.ErrorValue(reasonOverflow)
	case negative:
		return pipeline.Value{Kind: pipeline.Int, Num: -m}
	}
	return pipeline.UintValue(m)
}

// refuse gives what an operation on numbers gives for anything else: null for null, the error for an error.
func refuse(op string, a, b pipeline.Value) pipeline.Value {
	switch {
	case a.Kind == pipeline.Error:
		return a
	case b.Kind == pipeline.Error:
		return b
	case a.IsNull() || b.IsNull():
		return pipeline.Value{}
	}
	return pipeline.ErrorValue(fmt.Sprintf("%s %s %s has no meaning", a.Kind, op, b.Kind))
}

func isInteger(v pipeline.Value) bool { return v.Kind == pipeline.Int || v.Kind == pipeline.Uint }

func add(a, b pipeline.Value) pipeline.Value {
	if a.Kind == pipeline.Int && b.Kind == pipeline.Int {
		x, y := a.Int(), b.Int()
		if s := x + y; (s > x) == (y > 0) {
			return pipeline.IntValue(s)
		}
	}
	if a.Kind == pipeline.Float && b.Kind == pipeline.Float {
		return number(a.Float() + b.Float())
	}
	return addSlow(a, b)
}

func addSlow(a, b pipeline.Value) pipeline.Value {
	switch {
	case isInteger(a) && isInteger(b):
		m, mn := magnitude(a)
		k, kn := magnitude(b)
		return addMagnitudes(m, mn, k, kn)
	case a.IsNumber() && b.IsNumber():
		x, _ := a.AsFloat()
		y, _ := b.AsFloat()
		return number(x + y)
	case a.Kind == pipeline.String && b.Kind == pipeline.String:
		if len(a.Str)+len(b.Str) > TextBytesMax {
			return pipeline.ErrorValue(reasonText)
		}
		return pipeline.StringValue(a.Str + b.Str)
	}
	return refuse("+", a, b)
}

func addMagnitudes(m uint64, mn bool, k uint64, kn bool) pipeline.Value {
	if mn == kn {
		sum, carry := bits.Add64(m, k, 0)
		return integer(sum, mn, carry != 0)
	}
	if m < k {
		m, k, mn = k, m, kn
	}
	return integer(m-k, mn && m != k, false)
}

func subtract(a, b pipeline.Value) pipeline.Value {
	if a.Kind == pipeline.Int && b.Kind == pipeline.Int {
		x, y := a.Int(), b.Int()
		if s := x - y; (s < x) == (y > 0) {
			return pipeline.IntValue(s)
		}
	}
	switch {
	case a.Kind == pipeline.Float && b.Kind == pipeline.Float:
		return number(a.Float() - b.Float())
	case isInteger(a) && isInteger(b):
		m, mn := magnitude(a)
		k, kn := magnitude(b)
		return addMagnitudes(m, mn, k, !kn)
	case a.IsNumber() && b.IsNumber():
		x, _ := a.AsFloat()
		y, _ := b.AsFloat()
		return number(x - y)
	}
	return refuse("-", a, b)
}

func multiply(a, b pipeline.Value) pipeline.Value {
	switch {
	case a.Kind == pipeline.Float && b.Kind == pipeline.Float:
		return number(float64(a.Float() * b.Float()))
	case isInteger(a) && isInteger(b):
		m, mn := magnitude(a)
		k, kn := magnitude(b)
		high, low := bits.Mul64(m, k)
		return integer(low, mn != kn && low != 0, high != 0)
	case a.IsNumber() && b.IsNumber():
		x, _ := a.AsFloat()
		y, _ := b.AsFloat()
		return number(float64(x * y))
	}
	return refuse("*", a, b)
}

// divide gives a float, of integers too.
func divide(a, b pipeline.Value) pipeline.Value {
	x, ok := a.AsFloat()
	y, ok2 := b.AsFloat()
	switch {
	case !ok || !ok2:
		return refuse("/", a, b)
	case y == 0:
		return pipeline.ErrorValue(reasonZero)
	}
	return number(x / y)
}

// remainder has the sign of the dividend.
func remainder(a, b pipeline.Value) pipeline.Value {
	switch {
	case isInteger(a) && isInteger(b):
		m, mn := magnitude(a)
		k, _ := magnitude(b)
		if k == 0 {
			return pipeline.ErrorValue(reasonZero)
		}
		return integer(m%k, mn && m%k != 0, false)
	case a.IsNumber() && b.IsNumber():
		x, _ := a.AsFloat()
		y, _ := b.AsFloat()
		if y == 0 {
			return pipeline.ErrorValue(reasonZero)
		}
		return number(math.Mod(x, y))
	}
	return refuse("%", a, b)
}

// quotient is integer division, rounded towards zero.
func quotient(a, b pipeline.Value) pipeline.Value {
	if !isInteger(a) || !isInteger(b) {
		return refuse("div", a, b)
	}
	m, mn := magnitude(a)
	k, kn := magnitude(b)
	if k == 0 {
		return pipeline.ErrorValue(reasonZero)
	}
	return integer(m/k, mn != kn && m/k != 0, false)
}

func negate(a pipeline.Value) pipeline.Value {
	switch {
	case a.Kind == pipeline.Float:
		return number(-a.Float())
	case isInteger(a):
		m, negative := magnitude(a)
		return integer(m, !negative && m != 0, false)
	case a.IsNull() || a.Kind == pipeline.Error:
		return a
	}
	return pipeline.ErrorValue(fmt.Sprintf("-%s has no meaning", a.Kind))
}

// compareNumbers is exact between all kinds: 2^53+1 and the float 2^53 differ.
func compareNumbers(a, b pipeline.Value) int {
	switch {
	case a.Kind == pipeline.Int && b.Kind == pipeline.Int:
		return order(a.Int(), b.Int())
	case a.Kind == pipeline.Float && b.Kind == pipeline.Float:
		return order(a.Float(), b.Float())
	case a.Kind == pipeline.Float:
		return -compareIntFloat(b, a.Float())
	case b.Kind == pipeline.Float:
		return compareIntFloat(a, b.Float())
	case a.Kind == b.Kind:
		return order(a.Uint(), b.Uint())
	case a.Kind == pipeline.Uint: // above every Int
		return 1
	}
	return -1
}

func order[T int64 | uint64 | float64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// compareIntFloat compares without rounding: the float is cut to an integer, exactly, and its fraction decides a tie.
func compareIntFloat(v pipeline.Value, f float64) int {
	switch {
	case f >= 1<<64:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	var c int
	switch {
	case f < 0:
		if v.Kind == pipeline.Uint {
			return 1
		}
		c = order(v.Int(), int64(whole))
	case v.Kind == pipeline.Int && v.Int() < 0:
		return -1
	default:
		c = order(v.Num, uint64(whole))
	}
	if c == 0 {
		return order(whole, f)
	}
	return c
}
