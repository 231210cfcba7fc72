package expr

import (
	"fmt"
	"maps"
	"slices"
)

// function is one entry of the table. Of one, two and three those are set that the number of arguments allows; more than
// two arguments without three are taken by two from the left.
type function struct {
	usage    string
	min, max int
	args     []kindSet // the last one stands for all further arguments
	result   func(kids []*node) kindSet
	one      func(a value) value
	two      func(a, b value) value
	three    func(a, b, c value) value
	chance   bool // its value is not the same at every replay
}

// manyArgs is the limit of min, max and coalesce.
const manyArgs = 64

// functions are all that there are: no clock, no chance, nothing that loops over more than one text.
var functions = withPlanted(map[string]*function{
	"abs":   {usage: "abs(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: sameNumber, one: absolute},
	"min":   {usage: "min(x, y, …)", min: 2, max: manyArgs, args: []kindSet{numberMask}, result: anyOf, two: smaller},
	"max":   {usage: "max(x, y, …)", min: 2, max: manyArgs, args: []kindSet{numberMask}, result: anyOf, two: larger},
	"clamp": {usage: "clamp(x, low, high)", min: 3, max: 3, args: []kindSet{numberMask}, result: anyOf, three: clamp},
	"round": {usage: "round(x, digits)", min: 1, max: 2, args: []kindSet{numberMask, intMask}, result: firstNumber, one: roundWhole, two: roundDigits},
	"floor": {usage: "floor(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: sameNumber, one: floor},
	"ceil":  {usage: "ceil(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: sameNumber, one: ceil},
	"trunc": {usage: "trunc(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: sameNumber, one: truncate},
	"sqrt":  {usage: "sqrt(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: always(floatMask), one: squareRoot},
	"pow":   {usage: "pow(x, y)", min: 2, max: 2, args: []kindSet{numberMask}, result: always(floatMask), two: power},
	"exp":   {usage: "exp(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: always(floatMask), one: exponential},
	"log":   {usage: "log(x)", min: 1, max: 1, args: []kindSet{numberMask}, result: always(floatMask), one: logarithm},
	"div":   {usage: "div(x, y)", min: 2, max: 2, args: []kindSet{intMask}, result: always(intMask), two: quotient},

	"len":       {usage: "len(text)", min: 1, max: 1, args: []kindSet{textMask | bytesMask}, result: always(intMask), one: length},
	"lower":     {usage: "lower(text)", min: 1, max: 1, args: []kindSet{textMask}, result: always(textMask), one: lower},
	"upper":     {usage: "upper(text)", min: 1, max: 1, args: []kindSet{textMask}, result: always(textMask), one: upper},
	"trim":      {usage: "trim(text)", min: 1, max: 1, args: []kindSet{textMask}, result: always(textMask), one: trim},
	"substring": {usage: "substring(text, start, end)", min: 2, max: 3, args: []kindSet{textMask, intMask}, result: always(textMask), two: substringFrom, three: substring},
	"replace":   {usage: "replace(text, old, new)", min: 3, max: 3, args: []kindSet{textMask}, result: always(textMask), three: replace},
	"split":     {usage: "split(text, separator, n)", min: 3, max: 3, args: []kindSet{textMask, textMask, intMask}, result: always(textMask), three: split},

	"int":      {usage: "int(x)", min: 1, max: 1, args: []kindSet{numberMask | textMask}, result: always(intMask), one: toInt},
	"float":    {usage: "float(x)", min: 1, max: 1, args: []kindSet{numberMask | textMask}, result: always(floatMask), one: toFloat},
	"string":   {usage: "string(x)", min: 1, max: 1, args: []kindSet{anyMask &^ bytesMask}, result: always(textMask), one: toText},
	"bool":     {usage: "bool(x)", min: 1, max: 1, args: []kindSet{boolMask | textMask}, result: always(boolMask), one: toBool},
	"isNull":   {usage: "isNull(x)", min: 1, max: 1, args: []kindSet{anyMask}, result: always(boolMask), one: isNull},
	"coalesce": {usage: "coalesce(x, y, …)", min: 1, max: manyArgs, args: []kindSet{anyMask}, result: union},
})

func always(k kindSet) func([]*node) kindSet { return func([]*node) kindSet { return k } }

func sameNumber(kids []*node) kindSet { return arithmetic(kids[0].kinds) }

// firstNumber: the digits of round do not make a whole number a float.
func firstNumber(kids []*node) kindSet { return arithmetic(kids[0].kinds) }

// anyOf: one of the arguments comes out as it is.
func anyOf(kids []*node) kindSet { return union(kids) & numberMask }

func union(kids []*node) kindSet {
	var all kindSet
	for _, k := range kids {
		all |= k.kinds
	}
	return all
}

func functionNames() []string { return slices.Sorted(maps.Keys(functions)) }

func argumentCount(low, high int) string {
	switch {
	case low == high && low == 1:
		return "1 argument"
	case low == high:
		return fmt.Sprintf("%d arguments", low)
	case high == manyArgs:
		return fmt.Sprintf("%d arguments or more", low)
	}
	return fmt.Sprintf("%d to %d arguments", low, high)
}
