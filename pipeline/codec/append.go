package codec

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

// Column is one member of the object that a row becomes.
type Column struct {
	Name string
	Slot int
}

// AppendJSON appends a row as one JSON object on one line: first, when whole is a slot, the members of the document that
// decoding stored there, as they were written, then the columns, in their order, whose names the document lacks. A
// document that is no object becomes {"value": …}. The bytes depend on the values alone. An Error value is an error.
func AppendJSON(dst []byte, cols []Column, whole int, slots []pipeline.Value) ([]byte, error) {
	start := len(dst)
	dst = append(dst, '{')
	body := len(dst)
	var taken nameSet
	if whole >= 0 && !slots[whole].IsNull() {
		var err error
		if dst, taken, err = appendWhole(dst, cols, slots[whole]); err != nil {
			return dst[:start], err
		}
	}
	for i := range cols {
		if taken.has(i) {
			continue
		}
		if len(dst) > body {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendText(dst, cols[i].Name); err != nil {
			return dst[:start], fmt.Errorf("encode column name %q: %w", cols[i].Name, err)
		}
		dst = append(dst, ':')
		if dst, err = AppendValue(dst, slots[cols[i].Slot]); err != nil {
			return dst[:start], fmt.Errorf("encode column %s: %w", cols[i].Name, err)
		}
	}
	return append(dst, '}'), nil
}

// appendWhole appends the members of a document and tells which columns it has already.
func appendWhole(dst []byte, cols []Column, v pipeline.Value) ([]byte, nameSet, error) {
	var taken nameSet
	if v.Kind == pipeline.JSON && len(v.Str) > 0 && v.Str[0] == '{' {
		taken.mark(v.Str, cols)
		inner := v.Str[1 : len(v.Str)-1]
		return appendLine(dst, trimJSON(inner)), taken, nil
	}
	for i := range cols {
		if cols[i].Name == ValueField {
			taken.add(i)
		}
	}
	dst, err := AppendValue(append(dst, `"`+ValueField+`":`...), v)
	if err != nil {
		err = fmt.Errorf("encode the document: %w", err)
	}
	return dst, taken, err
}

// nameSet is a set of column numbers; it allocates only beyond 128.
type nameSet struct {
	low  [2]uint64
	high map[int]bool
}

func (s *nameSet) add(i int) {
	if i < 128 {
		s.low[i>>6] |= 1 << (i & 63)
		return
	}
	if s.high == nil {
		s.high = map[int]bool{}
	}
	s.high[i] = true
}

func (s *nameSet) has(i int) bool {
	if i < 128 {
		return s.low[i>>6]>>(i&63)&1 == 1
	}
	return s.high[i]
}

// mark adds the columns whose names are keys of the object. doc is well-formed.
func (s *nameSet) mark(doc string, cols []Column) {
	b := bytesOf(doc)
	depth := 0
	key := false
	for i := 0; i < len(b); {
		switch b[i] {
		case '{', '[':
			depth++
			key = depth == 1
			i++
		case '}', ']':
			depth--
			i++
		case ',':
			key = depth == 1
			i++
		case '"':
			end, escaped, bad := scanText(b, i)
			if bad != "" {
				return
			}
			if key {
				name := b[i+1 : end-1]
				if escaped {
					name = unescape(name)
				}
				for c := range cols {
					if cols[c].Name == string(name) {
						s.add(c)
					}
				}
				key = false
			}
			i = end
		default:
			i++
		}
	}
}

func trimJSON(s string) string {
	start, end := 0, len(s)
	for start < end && isSpace(s[start]) {
		start++
	}
	for end > start && isSpace(s[end-1]) {
		end--
	}
	return s[start:end]
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// appendLine appends JSON text without line breaks: they stand only between tokens, and a result is one line.
func appendLine(dst []byte, s string) []byte {
	for {
		i := 0
		for i < len(s) && s[i] != '\n' && s[i] != '\r' {
			i++
		}
		dst = append(dst, s[:i]...)
		if i == len(s) {
			return dst
		}
		s = s[i+1:]
	}
}

var (
	errUTF8   = errors.New("text is not valid UTF-8")
	errFinite = errors.New("number is not finite")
)

// AppendValue appends one value as JSON. Integers are exact, floats have the fewest digits that read back as the same float.
func AppendValue(dst []byte, v pipeline.Value) ([]byte, error) {
	switch v.Kind {
	case pipeline.Null:
		return append(dst, "null"...), nil
	case pipeline.Bool:
		return strconv.AppendBool(dst, v.Bool()), nil
	case pipeline.Int:
		return strconv.AppendInt(dst, v.Int(), 10), nil
	case pipeline.Uint:
		return strconv.AppendUint(dst, v.Uint(), 10), nil
	case pipeline.Float:
		return appendFloat(dst, v.Float())
	case pipeline.String:
		return appendText(dst, v.Str)
	case pipeline.Bytes:
		dst = append(dst, '"')
		dst = base64.StdEncoding.AppendEncode(dst, bytesOf(v.Str))
		return append(dst, '"'), nil
	case pipeline.JSON:
		return appendLine(dst, v.Str), nil
	case pipeline.Error:
		return dst, errors.New(v.Str)
	}
	return dst, fmt.Errorf("kind %s has no JSON form", v.Kind)
}

// appendFloat writes a plain number where digits and magnitude agree, an exponent below 1e-6 and from 2^53 on: padded
// with zeros such a number would read back as a different integer. Negative zero is 0.
func appendFloat(dst []byte, f float64) ([]byte, error) {
	abs := math.Abs(f)
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return dst, errFinite
	case f == 0:
		return append(dst, '0'), nil
	case abs >= 1e-6 && abs < 1<<53:
		return strconv.AppendFloat(dst, f, 'f', -1, 64), nil
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// e-07 becomes e-7, e+20 becomes e20
	n := len(dst)
	e := n - 1
	for dst[e] != 'e' {
		e--
	}
	sign, exponent := dst[e+1], dst[e+2:n]
	if exponent[0] == '0' {
		exponent = exponent[1:]
	}
	out := dst[:e+1]
	if sign == '-' {
		out = append(out, '-')
	}
	return append(out, exponent...), nil
}

const hexDigits = "0123456789abcdef"

// appendText appends s as a JSON string; only what must be escaped is.
func appendText(dst []byte, s string) ([]byte, error) {
	dst = append(dst, '"')
	plain := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				return dst, errUTF8
			}
			i += n
			continue
		}
		if c >= 0x20 && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[plain:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		case '\b':
			dst = append(dst, '\\', 'b')
		case '\f':
			dst = append(dst, '\\', 'f')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		plain = i
	}
	dst = append(dst, s[plain:]...)
	return append(dst, '"'), nil
}
