package expr

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

const reasonText = "the text is too long: an expression builds at most 1 MiB"

// length counts characters (code points) of a text and bytes of bytes.
func length(a value) value {
	switch a.Kind {
	case pipeline.String:
		return pipeline.IntValue(int64(utf8.RuneCountInString(a.Str)))
	case pipeline.Bytes:
		return pipeline.IntValue(int64(len(a.Str)))
	}
	return refuseOne("len", a)
}

func lower(a value) value { return textFunc("lower", a, strings.ToLower) }
func upper(a value) value { return textFunc("upper", a, strings.ToUpper) }
func trim(a value) value  { return textFunc("trim", a, strings.TrimSpace) }

func textFunc(name string, a value, f func(string) string) value {
	if a.Kind != pipeline.String {
		return refuseOne(name, a)
	}
	s := f(a.Str)
	if len(s) > TextBytesMax && len(s) > len(a.Str) {
		return pipeline.ErrorValue(reasonText)
	}
	return pipeline.StringValue(s)
}

func substringFrom(a, start value) value {
	return substring(a, start, pipeline.IntValue(math.MaxInt64))
}

// substring counts characters from 0, negative ones from the end, and cuts what lies outside.
func substring(a, start, end value) value {
	if a.Kind != pipeline.String || start.Kind != pipeline.Int || end.Kind != pipeline.Int {
		return refuseAny("substring", a, start, end)
	}
	from, to := start.Int(), end.Int()
	if from < 0 || to < 0 {
		n := int64(utf8.RuneCountInString(a.Str))
		from, to = fromEnd(from, n), fromEnd(to, n)
	}
	if from >= to {
		return pipeline.StringValue("")
	}
	first := runeOffset(a.Str, from)
	return pipeline.StringValue(a.Str[first : first+runeOffset(a.Str[first:], to-from)])
}

func fromEnd(i, n int64) int64 {
	if i < 0 {
		return max(0, i+n)
	}
	return i
}

// runeOffset is the byte at which the n-th character begins, or the length.
func runeOffset(s string, n int64) int {
	for i := range s {
		if n == 0 {
			return i
		}
		n--
	}
	return len(s)
}

func replace(a, before, after value) value {
	switch {
	case a.Kind != pipeline.String || before.Kind != pipeline.String || after.Kind != pipeline.String:
		return refuseAny("replace", a, before, after)
	case before.Str == "":
		return pipeline.ErrorValue("replace: the text to replace is empty")
	}
	grown := int64(strings.Count(a.Str, before.Str)) * int64(len(after.Str)-len(before.Str))
	if grown > 0 && int64(len(a.Str))+grown > TextBytesMax {
		return pipeline.ErrorValue(reasonText)
	}
	return pipeline.StringValue(strings.ReplaceAll(a.Str, before.Str, after.Str))
}

// split gives the n-th part, counted from 0 or, when negative, from the end; null where there is none.
func split(a, separator, n value) value {
	switch {
	case a.Kind != pipeline.String || separator.Kind != pipeline.String || n.Kind != pipeline.Int:
		return refuseAny("split", a, separator, n)
	case separator.Str == "":
		return pipeline.ErrorValue("split: the separator is empty")
	}
	i := n.Int()
	if i < 0 {
		if i += int64(strings.Count(a.Str, separator.Str)) + 1; i < 0 {
			return value{}
		}
	}
	rest := a.Str
	for ; i > 0; i-- {
		_, after, ok := strings.Cut(rest, separator.Str)
		if !ok {
			return value{}
		}
		rest = after
	}
	part, _, _ := strings.Cut(rest, separator.Str)
	return pipeline.StringValue(part)
}

// toInt cuts the fraction of a float and reads a text strictly.
func toInt(a value) value {
	switch a.Kind {
	case pipeline.Int, pipeline.Uint:
		return a
	case pipeline.Float:
		f := math.Trunc(a.Float())
		switch {
		case f >= 1<<64 || f < -1<<63:
			return pipeline.ErrorValue(reasonOverflow)
		case f < 0:
			return pipeline.IntValue(int64(f))
		}
		return pipeline.UintValue(uint64(f))
	case pipeline.String:
		return parseText("int", a.Str, pipeline.Int)
	}
	return refuseOne("int", a)
}

func toFloat(a value) value {
	if a.Kind == pipeline.String {
		return parseText("float", a.Str, pipeline.Float)
	}
	x, ok := a.AsFloat()
	if !ok {
		return refuseOne("float", a)
	}
	return number(x)
}

func parseText(name, text string, kind pipeline.Kind) value {
	v, reason := codec.ParseNumber(strings.TrimSpace(text), kind)
	if reason != "" {
		return pipeline.ErrorValue(name + ": " + reason)
	}
	return v
}

// toText writes numbers as they would be in JSON, and JSON as it is.
func toText(a value) value {
	switch a.Kind {
	case pipeline.String:
		return a
	case pipeline.JSON:
		return pipeline.StringValue(a.Str)
	case pipeline.Bool, pipeline.Int, pipeline.Uint, pipeline.Float:
		text, err := codec.AppendValue(nil, a)
		if err != nil {
			return pipeline.ErrorValue(err.Error())
		}
		return pipeline.StringValue(string(text))
	}
	return refuseOne("string", a)
}

func toBool(a value) value {
	switch {
	case a.Kind == pipeline.Bool:
		return a
	case a.Kind == pipeline.String && (a.Str == "true" || a.Str == "false"):
		return pipeline.BoolValue(a.Str == "true")
	case a.Kind == pipeline.String:
		return pipeline.ErrorValue(fmt.Sprintf("bool: want \"true\" or \"false\", found %.20q", a.Str))
	}
	return refuseOne("bool", a)
}

func isNull(a value) value {
	if a.Kind == pipeline.Error {
		return a
	}
	return pipeline.BoolValue(a.IsNull())
}
