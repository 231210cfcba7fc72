package expr

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
)

type tokenKind uint8

const (
	tokenEnd tokenKind = iota
	tokenName
	tokenValue // a number, duration or text
	tokenMark  // an operator, bracket or comma
)

type token struct {
	kind  tokenKind
	text  string // as written
	value pipeline.Value
	at    int
	end   int
}

func (t token) String() string {
	if t.kind == tokenEnd {
		return "the end"
	}
	return strconv.Quote(t.text)
}

func (t token) is(mark string) bool { return t.kind == tokenMark && t.text == mark }

// marks, longest first.
var marks = []string{"&&", "||", "==", "!=", "<=", ">=", "??", "..", "**",
	"+", "-", "*", "/", "%", "<", ">", "!", "?", ":", "(", ")", "[", "]", ",", ".", "="}

func lex(src string) ([]token, error) {
	if len(src) > SourceBytesMax {
		return nil, &Error{Offset: SourceBytesMax, Msg: "the expression is longer than " + strconv.Itoa(SourceBytesMax) + " bytes"}
	}
	var all []token
	for i := 0; ; {
		for i < len(src) && strings.IndexByte(" \t\r\n", src[i]) >= 0 {
			i++
		}
		if i == len(src) {
			return append(all, token{at: i, end: i}), nil
		}
		t := token{at: i}
		var err *Error
		switch c := src[i]; {
		case isDigit(c) || c == '.' && i+1 < len(src) && isDigit(src[i+1]):
			err = t.number(src)
		case c == '"' || c == '\'' || c == '`':
			err = t.quoted(src)
		case isNameStart(c):
			t.kind, t.end = tokenName, i+1
			for t.end < len(src) && (isNameStart(src[t.end]) && src[t.end] != '$' || isDigit(src[t.end])) {
				t.end++
			}
		default:
			err = t.mark(src)
		}
		if err != nil {
			return nil, err
		}
		t.text = src[t.at:t.end]
		all = append(all, t)
		i = t.end
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isNameStart(c byte) bool {
	return c == '_' || c == '$' || 'a' <= c|0x20 && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

func (t *token) mark(src string) *Error {
	for _, m := range marks {
		if strings.HasPrefix(src[t.at:], m) {
			t.kind, t.end = tokenMark, t.at+len(m)
			return nil
		}
	}
	_, n := utf8.DecodeRuneInString(src[t.at:])
	e := &Error{Offset: t.at, Length: n, Msg: "found " + strconv.Quote(src[t.at:t.at+n]) + ", which has no meaning here"}
	switch src[t.at] {
	case '&':
		e.Suggest = "&&"
	case '|':
		e.Suggest = "||"
	case '^':
		e.Suggest = "pow"
	}
	return e
}

// number reads 12, 1_000, 0xff, 1.5, 2e3, and durations: 30s, 1h30m, 1.5s.
func (t *token) number(src string) *Error {
	t.kind = tokenValue
	i := t.at
	if src[i] == '0' && i+1 < len(src) && strings.IndexByte("xXbBoO", src[i+1]) >= 0 {
		return t.based(src)
	}
	i = skipDigits(src, i)
	fraction := false
	if i+1 < len(src) && src[i] == '.' && isDigit(src[i+1]) {
		fraction = true
		i = skipDigits(src, i+1)
	}
	if i < len(src) && src[i]|0x20 == 'e' {
		j := i + 1
		if j < len(src) && (src[j] == '+' || src[j] == '-') {
			j++
		}
		if j < len(src) && isDigit(src[j]) {
			fraction = true
			i = skipDigits(src, j)
		}
	}
	t.end = i
	if i < len(src) && isNameStart(src[i]) {
		return t.duration(src)
	}
	text := strings.ReplaceAll(src[t.at:i], "_", "")
	if fraction {
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return t.fail("number %s is out of the range of a float64", text)
		}
		t.value = pipeline.FloatValue(f)
		return nil
	}
	return t.integer(text, 10)
}

func skipDigits(src string, i int) int {
	for i < len(src) && (isDigit(src[i]) || src[i] == '_') {
		i++
	}
	return i
}

func (t *token) based(src string) *Error {
	base := map[byte]int{'x': 16, 'b': 2, 'o': 8}[src[t.at+1]|0x20]
	t.end = t.at + 2
	for t.end < len(src) && (isDigit(src[t.end]) || isNameStart(src[t.end])) {
		t.end++
	}
	return t.integer(strings.ReplaceAll(src[t.at+2:t.end], "_", ""), base)
}

func (t *token) integer(text string, base int) *Error {
	u, err := strconv.ParseUint(text, base, 64)
	switch {
	case err == nil:
		t.value = pipeline.UintValue(u)
		return nil
	case strings.HasSuffix(err.Error(), "out of range"):
		return t.fail("integer %s is out of range: the largest is 18446744073709551615", text)
	}
	return t.fail("%q is no number in base %d", text, base)
}

// durationUnits in milliseconds.
var durationUnits = map[string]float64{"ms": 1, "s": 1e3, "m": 60e3, "h": 3600e3, "d": 86400e3}

// duration reads what follows a number's digits as units: the value is an integer of milliseconds.
func (t *token) duration(src string) *Error {
	total, i := 0.0, t.at
	for i < len(src) && isDigit(src[i]) {
		start := i
		for i < len(src) && (isDigit(src[i]) || src[i] == '.' || src[i] == '_') {
			i++
		}
		number, err := strconv.ParseFloat(strings.ReplaceAll(src[start:i], "_", ""), 64)
		unitStart := i
		for i < len(src) && isNameStart(src[i]) {
			i++
		}
		t.end = i
		unit, ok := durationUnits[src[unitStart:i]]
		if err != nil || !ok {
			return t.fail("%q is no number and no duration: units are ms, s, m, h, d, as in 1h30m", src[t.at:i])
		}
		total += float64(number * unit)
	}
	if total != math.Trunc(total) || total > 1<<53 {
		return t.fail("duration %s is not a whole number of milliseconds", src[t.at:t.end])
	}
	t.value = pipeline.IntValue(int64(total))
	return nil
}

// quoted reads "text" and 'text' with escapes, and `text` as it is.
func (t *token) quoted(src string) *Error {
	t.kind = tokenValue
	quote := src[t.at]
	i := t.at + 1
	var b strings.Builder
	for i < len(src) && src[i] != quote {
		if src[i] == '\\' && quote != '`' {
			r, multibyte, rest, err := strconv.UnquoteChar(src[i:], quote)
			if err != nil {
				t.at, t.end = i, min(len(src), i+2)
				return t.fail("%q is no escape: they are \\n \\t \\r \\\\ \\\" \\' \\xHH \\uHHHH \\UHHHHHHHH", src[i:t.end])
			}
			if multibyte || r < utf8.RuneSelf {
				b.WriteRune(r)
			} else {
				b.WriteByte(byte(r))
			}
			i = len(src) - len(rest)
			continue
		}
		b.WriteByte(src[i])
		i++
	}
	t.end = min(len(src), i+1)
	if i >= len(src) {
		return t.fail("text has no closing %c", quote)
	}
	if !utf8.ValidString(b.String()) {
		return t.fail("text is not valid UTF-8")
	}
	t.value = pipeline.StringValue(b.String())
	return nil
}
