package window

import (
	"fmt"
	"strings"
)

// AggKind is an aggregate function. All but CountRows skip null arguments.
type AggKind uint8

const (
	CountRows AggKind = iota + 1 // count(): rows
	Count                        // count(x): rows where x is not null
	Sum                          // of numbers; null when there was none
	Avg                          // of numbers, a float; null when there was none
	Min                          // in the order of keys: bool < number < string < bytes < json
	Max
	First // in the order of arrival
	Last
	Stddev       // of the population: divided by n
	StddevSamp   // of a sample: divided by n - 1, null for fewer than two
	Variance     // of the population
	VarianceSamp // of a sample
	Median       // percentile(x, 50)
	Percentile   // of numbers, interpolated between the two nearest; exact up to exactMax different values
	Distinct     // how many different values; exact up to distinctMax
	Collect      // the first values, up to a limit, as a JSON array
	Increase     // of a counter, in the order of event time
	Rate         // increase per second
	aggKindEnd
)

var aggNames = [...]string{
	"", "count", "count", "sum", "avg", "min", "max", "first", "last", "stddev", "stddev_samp", "variance", "variance_samp",
	"median", "percentile", "distinct", "collect", "increase", "rate",
}

// AggNames are the aggregate functions by their names in a config.
func AggNames() []string { return append([]string(nil), aggNames[Count:]...) }

// ParseAggKind finds an aggregate function by its name in a config; args is how many arguments it was given.
func ParseAggKind(name string, args int) (AggKind, error) {
	if name == "count" && args == 0 {
		return CountRows, nil
	}
	for k := Count; k < aggKindEnd; k++ {
		if aggNames[k] != name {
			continue
		}
		if want := k.Args(); args != want {
			return 0, fmt.Errorf("%w: %s takes %d arguments, found %d", ErrConfig, name, want, args)
		}
		return k, nil
	}
	return 0, fmt.Errorf("%w: unknown aggregate %q, want one of %s", ErrConfig, name, strings.Join(AggNames(), ", "))
}

// String is the name in a config.
func (k AggKind) String() string {
	if int(k) < len(aggNames) {
		return aggNames[k]
	}
	return fmt.Sprintf("agg(%d)", uint8(k))
}

// Args is how many arguments the function takes. A second one is a constant number, which CheckParam judges.
func (k AggKind) Args() int {
	switch k {
	case CountRows:
		return 0
	case Percentile, Collect:
		return 2
	}
	return 1
}

// Numeric tells the functions whose argument must be a number.
func (k AggKind) Numeric() bool {
	return k == Sum || k == Avg || k.family() != familyNone
}

// collectMax bounds the limit of Collect.
const collectMax = 10_000

// CheckParam judges the second argument: "" or what is allowed.
func (k AggKind) CheckParam(v float64) (allowed string) {
	switch {
	case k == Percentile && !(v >= 0 && v <= 100):
		return "the second argument of percentile is a percentage from 0 to 100, such as percentile(temp, 95)"
	case k == Collect && !(v >= 1 && v <= collectMax && v == float64(int(v))):
		return fmt.Sprintf("the second argument of collect is the number of values kept, a whole number from 1 to %d, such as collect(id, 100)", collectMax)
	}
	return ""
}

// family is what aggregates must have in common to share an accumulator.
type family uint8

const (
	familyNone family = iota
	familyMoments
	familyQuantiles
	familyCounter
)

func (k AggKind) family() family {
	switch k {
	case Stddev, StddevSamp, Variance, VarianceSamp:
		return familyMoments
	case Median, Percentile:
		return familyQuantiles
	case Increase, Rate:
		return familyCounter
	}
	return familyNone
}
