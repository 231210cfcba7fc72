package codec

import (
	"math"
	"strconv"

	"github.com/weirstream/weir/pipeline"
)

// number is a scanned JSON number: ±mantissa × 10^exponent.
type number struct {
	mantissa uint64 // exact unless long
	exponent int
	negative bool
	long     bool // more than 19 significant digits: mantissa is not exact
	integer  bool // neither fraction nor exponent was written
}

// exponentMax bounds the written exponent: anything beyond is 0 or out of range, and the sum does not overflow.
const exponentMax = 1 << 20

// scanNumber checks the grammar of RFC 8259. bad is "" or what is wrong at end.
func scanNumber(src []byte, i int) (n number, end int, bad string) {
	if src[i] == '-' {
		n.negative = true
		i++
	}
	if i >= len(src) || src[i]-'0' > 9 {
		return n, i, "want a digit, found " + found(src, i)
	}
	if src[i] == '0' && i+1 < len(src) && src[i+1]-'0' <= 9 {
		return n, i, "a number does not begin with 0"
	}
	i = n.digits(src, i, false)
	n.integer = true
	if i < len(src) && src[i] == '.' {
		n.integer = false
		start := i + 1
		if i = n.digits(src, start, true); i == start {
			return n, i, "want a digit, found " + found(src, i)
		}
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		n.integer = false
		if i, bad = n.scanExponent(src, i+1); bad != "" {
			return n, i, bad
		}
	}
	return n, i, ""
}

// shortInteger reads the numbers that are most: up to 18 digits, no fraction, no exponent. end is 0 for all others.
func shortInteger(src []byte, i int) (v pipeline.Value, end int) {
	negative := src[i] == '-'
	if negative {
		i++
	}
	start := i
	var m int64
	for i < len(src) && src[i]-'0' <= 9 {
		m = m*10 + int64(src[i]-'0')
		i++
	}
	n := i - start
	if n == 0 || n > 18 || n > 1 && src[start] == '0' || i < len(src) && (src[i] == '.' || src[i]|0x20 == 'e') {
		return v, 0
	}
	if negative {
		m = -m
	}
	return pipeline.IntValue(m), i
}

// digits adds digits to the mantissa. 19 digits always fit.
func (n *number) digits(src []byte, i int, fraction bool) int {
	const room = (math.MaxUint64 - 9) / 10
	for ; i < len(src); i++ {
		c := src[i] - '0'
		if c > 9 {
			break
		}
		if n.mantissa > room {
			n.long = true
			continue
		}
		n.mantissa = n.mantissa*10 + uint64(c)
		if fraction {
			n.exponent--
		}
	}
	return i
}

func (n *number) scanExponent(src []byte, i int) (end int, bad string) {
	negative := false
	if i < len(src) && (src[i] == '+' || src[i] == '-') {
		negative = src[i] == '-'
		i++
	}
	start, e := i, 0
	for ; i < len(src) && src[i]-'0' <= 9; i++ {
		if e < exponentMax {
			e = e*10 + int(src[i]-'0')
		}
	}
	if i == start {
		return i, "want a digit, found " + found(src, i)
	}
	if negative {
		e = -e
	}
	n.exponent += e
	return i, ""
}

// ParseNumber reads a text that must be one JSON number as the given kind: Int, Uint, Float, or Null for what the text
// says. reason is "" or why it is refused.
func ParseNumber(text string, kind pipeline.Kind) (v pipeline.Value, reason string) {
	if text != "" {
		n, end, bad := scanNumber(bytesOf(text), 0)
		if bad == "" && end == len(text) {
			return n.value(text, kind)
		}
	}
	return v, "want a number, found " + excerpt(text)
}

const (
	reasonInteger  = "integer out of range: want -2^63 to 2^64-1"
	reasonFloat    = "number out of range of a float64"
	reasonNegative = "declared uint, found a negative number"
)

// value gives the number as the declared kind, or a reason why not. text is the number as written.
func (n *number) value(text string, kind pipeline.Kind) (pipeline.Value, string) {
	switch kind {
	case pipeline.Null:
		if n.integer {
			return n.integerValue(text)
		}
		return n.floatValue(text)
	case pipeline.Float:
		return n.floatValue(text)
	case pipeline.Int:
		return n.integerValue(text)
	case pipeline.Uint:
		v, reason := n.integerValue(text)
		if reason == "" && v.Kind == pipeline.Int && v.Int() < 0 {
			return v, reasonNegative
		}
		return v, reason
	case pipeline.JSON:
		return pipeline.JSONValue(text), ""
	}
	return pipeline.Value{}, "declared " + kind.String() + ", found number " + excerpt(text)
}

// pow10 are exact float64 values.
var pow10 = [...]float64{1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
	1e19, 1e20, 1e21, 1e22}

// floatValue rounds once, to nearest. A mantissa and a power of ten that are both exact need a single operation.
func (n *number) floatValue(text string) (pipeline.Value, string) {
	if !n.long && n.mantissa < 1<<53 && -len(pow10) < n.exponent && n.exponent < len(pow10) {
		f := float64(n.mantissa)
		if n.exponent < 0 {
			f /= pow10[-n.exponent]
		} else {
			f *= pow10[n.exponent]
		}
		if n.negative {
			f = -f
		}
		return pipeline.FloatValue(f), ""
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return pipeline.Value{}, reasonFloat
	}
	return pipeline.FloatValue(f), ""
}

// integerValue is exact: 1e3 and 1000.0 are 1000, 1.5 is refused.
func (n *number) integerValue(text string) (pipeline.Value, string) {
	if n.integer && !n.long {
		return signed(n.mantissa, n.negative)
	}
	return exactInteger(text)
}

// signed gives ±m.
func signed(m uint64, negative bool) (pipeline.Value, string) {
	if !negative {
		return pipeline.UintValue(m), ""
	}
	if m > 1<<63 {
		return pipeline.Value{}, reasonInteger
	}
	return pipeline.IntValue(-int64(m)), ""
}

// exactInteger reads the digits of any number text and shifts the decimal point.
func exactInteger(text string) (pipeline.Value, string) {
	digits, exponent, negative := decimal(text)
	if len(digits) == 0 {
		return pipeline.IntValue(0), ""
	}
	if exponent < 0 {
		return pipeline.Value{}, "declared int, found number " + excerpt(text)
	}
	const longest = 20 // digits of 2^64-1
	if exponent > longest || len(digits)+exponent > longest {
		return pipeline.Value{}, reasonInteger
	}
	for range exponent {
		digits = append(digits, '0')
	}
	m, err := strconv.ParseUint(string(digits), 10, 64)
	if err != nil {
		return pipeline.Value{}, reasonInteger
	}
	return signed(m, negative)
}

// decimal splits a well-formed number into its digits without leading and trailing zeros and a power of ten.
func decimal(text string) (digits []byte, exponent int, negative bool) {
	fraction := false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '-':
			negative = true
		case c == '.':
			fraction = true
		case c|0x20 == 'e':
			var n number
			n.scanExponent([]byte(text), i+1)
			exponent += n.exponent
			i = len(text)
		default:
			if fraction {
				exponent--
			}
			if c != '0' || len(digits) > 0 {
				digits = append(digits, c)
			}
		}
	}
	for len(digits) > 0 && digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
		exponent++
	}
	return digits, exponent, negative
}
