package expr

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/portmath"
)

type value = pipeline.Value

// refuseOne gives what a function gives for a value of the wrong kind: null for null, the error for an error.
func refuseOne(name string, v value) value {
	if v.IsNull() || v.Kind == pipeline.Error {
		return v
	}
	return pipeline.ErrorValue(name + " of " + v.Kind.String() + " has no meaning")
}

// refuseAny is refuseOne for several arguments: the first error, else null where there is one.
func refuseAny(name string, args ...value) value {
	null := false
	for _, a := range args {
		if a.Kind == pipeline.Error {
			return a
		}
		null = null || a.IsNull()
	}
	if null {
		return value{}
	}
	text := name + " of"
	for i, a := range args {
		if i > 0 {
			text += ","
		}
		text += " " + a.Kind.String()
	}
	return pipeline.ErrorValue(text + " has no meaning")
}

func absolute(a value) value {
	switch {
	case a.Kind == pipeline.Float:
		return number(math.Abs(a.Float()))
	case isInteger(a):
		m, _ := magnitude(a)
		return pipeline.UintValue(m)
	}
	return refuseOne("abs", a)
}

func smaller(a, b value) value {
	if !a.IsNumber() || !b.IsNumber() {
		return refuse("min", a, b)
	}
	if compareNumbers(b, a) < 0 {
		return b
	}
	return a
}

func larger(a, b value) value {
	if !a.IsNumber() || !b.IsNumber() {
		return refuse("max", a, b)
	}
	if compareNumbers(b, a) > 0 {
		return b
	}
	return a
}

func clamp(a, low, high value) value {
	switch {
	case !a.IsNumber() || !low.IsNumber() || !high.IsNumber():
		return refuseAny("clamp", a, low, high)
	case compareNumbers(low, high) > 0:
		return pipeline.ErrorValue("clamp: the low end lies above the high end")
	case compareNumbers(a, low) < 0:
		return low
	case compareNumbers(a, high) > 0:
		return high
	}
	return a
}

// floatOnly applies f to a float and gives an integer as it is.
func floatOnly(name string, a value, f func(float64) float64) value {
	switch {
	case a.Kind == pipeline.Float:
		return number(f(a.Float()))
	case isInteger(a):
		return a
	}
	return refuseOne(name, a)
}

func roundWhole(a value) value { return floatOnly("round", a, math.Round) }
func floor(a value) value      { return floatOnly("floor", a, math.Floor) }
func ceil(a value) value       { return floatOnly("ceil", a, math.Ceil) }
func truncate(a value) value   { return floatOnly("trunc", a, math.Trunc) }

const roundDigitsMax = 15

// roundDigits gives the float nearest to the decimal number with so many digits that is nearest to a's exact value.
func roundDigits(a, digits value) value {
	switch {
	case !a.IsNumber() || !isInteger(digits):
		return refuse("round", a, digits)
	case digits.Num > roundDigitsMax:
		return pipeline.ErrorValue(fmt.Sprintf("round: digits are not in 0..%d", roundDigitsMax))
	case a.Kind != pipeline.Float:
		return a
	}
	var buf [400]byte
	text := strconv.AppendFloat(buf[:0], a.Float(), 'f', int(digits.Num), 64)
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return pipeline.ErrorValue(reasonRange)
	}
	return number(f)
}

// floatFunc applies f to any number.
func floatFunc(name string, a value, f func(float64) float64) value {
	x, ok := a.AsFloat()
	if !ok {
		return refuseOne(name, a)
	}
	return number(f(x))
}

func squareRoot(a value) value {
	if x, ok := a.AsFloat(); ok && x < 0 {
		return pipeline.ErrorValue("sqrt of a negative number")
	}
	return floatFunc("sqrt", a, math.Sqrt)
}

func exponential(a value) value { return floatFunc("exp", a, portmath.Exp) }

func logarithm(a value) value {
	if x, ok := a.AsFloat(); ok && x <= 0 {
		return pipeline.ErrorValue("log of a number that is not positive")
	}
	return floatFunc("log", a, portmath.Log)
}

func power(a, b value) value {
	x, ok := a.AsFloat()
	y, ok2 := b.AsFloat()
	if !ok || !ok2 {
		return refuse("pow", a, b)
	}
	return number(portmath.Pow(x, y))
}
