package codec

import (
	"fmt"
	"math"
	"strconv"

	"github.com/weirstream/weir/pipeline"
)

// Unit says how a field tells event time.
type Unit uint8

// The units. Numbers count from the Unix epoch.
const (
	Seconds Unit = iota + 1
	Milliseconds
	Microseconds
	Nanoseconds
	RFC3339   // text such as 2026-01-01T00:00:00.123Z
	LocalTime // text that a clock without a zone showed: read by Local
)

var unitNames = [...]string{Seconds: "s", Milliseconds: "ms", Microseconds: "us", Nanoseconds: "ns", RFC3339: "rfc3339", LocalTime: "local"}

// Units are the names that ParseUnit reads.
func Units() []string { return append([]string(nil), unitNames[1:]...) }

// ParseUnit reads a unit's name.
func ParseUnit(s string) (Unit, error) {
	for u := Seconds; u <= LocalTime; u++ {
		if unitNames[u] == s {
			return u, nil
		}
	}
	return 0, fmt.Errorf("parse unit %q: want s, ms, us, ns, rfc3339 or local", s)
}

func (u Unit) String() string {
	if u >= Seconds && u <= LocalTime {
		return unitNames[u]
	}
	return "unit(" + strconv.Itoa(int(u)) + ")"
}

// power is the power of ten that turns the unit into milliseconds.
func (u Unit) power() int { return (int(Milliseconds) - int(u)) * 3 }

// ParseTime gives the Unix milliseconds of a time field, rounded down (towards the past, before 1970 as well). It is exact: big
// nanosecond integers are not rounded, and a fraction counts as the decimal number that was written. Numbers may come as
// text. It checks no range but that of int64; null is an error, since whether a time is needed is the caller's to say.
func ParseTime(v pipeline.Value, unit Unit) (ms int64, err error) {
	switch v.Kind {
	case pipeline.Null:
		return 0, fmt.Errorf("parse time: the field is missing or null")
	case pipeline.Int, pipeline.Uint, pipeline.Float, pipeline.String:
	default:
		return 0, fmt.Errorf("parse time: want %s, found %s", unit.wants(), v.Kind)
	}
	if unit < Seconds || unit > RFC3339 {
		return 0, fmt.Errorf("parse time: unknown %s", unit)
	}
	if unit == RFC3339 {
		return ParseRFC3339(v, nil, pipeline.Stamp{})
	}
	var ok bool
	switch v.Kind {
	case pipeline.Int:
		ms, ok = scaleInt(v.Int(), unit)
	case pipeline.Uint:
		ms, ok = scaleUint(v.Uint(), unit)
	case pipeline.Float:
		var buf [32]byte
		ms, ok = scaleDecimal(string(strconv.AppendFloat(buf[:0], v.Float(), 'g', -1, 64)), unit)
	case pipeline.String:
		if v.Str == "" {
			return 0, fmt.Errorf("parse time: want %s, found empty text", unit.wants())
		}
		_, end, bad := scanNumber(bytesOf(v.Str), 0)
		if bad != "" || end != len(v.Str) {
			return 0, fmt.Errorf("parse time: want %s, found %s", unit.wants(), excerpt(v.Str))
		}
		ms, ok = scaleDecimal(v.Str, unit)
	}
	if !ok {
		return 0, fmt.Errorf("parse time: out of the range of 64-bit milliseconds: wrong unit?")
	}
	return ms, nil
}

func (u Unit) wants() string {
	if u == RFC3339 {
		return "an RFC 3339 time such as \"2026-01-01T00:00:00Z\""
	}
	return "a number of " + u.String() + " since 1970"
}

func scaleInt(i int64, unit Unit) (int64, bool) {
	switch unit {
	case Seconds:
		return i * 1000, i >= math.MinInt64/1000 && i <= math.MaxInt64/1000
	case Microseconds:
		return floorDiv(i, 1e3), true
	case Nanoseconds:
		return floorDiv(i, 1e6), true
	}
	return i, true
}

func scaleUint(u uint64, unit Unit) (int64, bool) {
	switch unit {
	case Microseconds:
		return int64(u / 1e3), true
	case Nanoseconds:
		return int64(u / 1e6), true
	}
	return 0, u <= math.MaxInt64 && unit == Milliseconds
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// scaleDecimal shifts the decimal point of a number text and rounds down.
func scaleDecimal(text string, unit Unit) (int64, bool) {
	digits, exponent, negative := decimal(text)
	if len(digits) == 0 {
		return 0, true
	}
	exponent += unit.power()
	inexact := exponent < 0 // the last digit is not 0
	const longest = 19      // digits of 2^63
	switch {
	case len(digits)+exponent > longest:
		return 0, false
	case exponent < 0:
		digits = digits[:max(0, len(digits)+exponent)]
	default:
		for range exponent {
			digits = append(digits, '0')
		}
	}
	var m uint64
	for _, c := range digits {
		m = m*10 + uint64(c-'0')
	}
	if negative {
		if inexact {
			m++
		}
		return -int64(m), m <= 1<<63
	}
	return int64(m), m <= math.MaxInt64
}
