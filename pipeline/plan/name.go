package plan

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// NameBytesMax is the longest name of a gateway, pipeline, broker, source, step or sink.
const NameBytesMax = 128

// NamePattern is the accepted alphabet of names as a regular expression (ECMA 262 with the u flag, and RE2).
const NamePattern = `^[\p{L}\p{Nd}_][\p{L}\p{Nd}_-]*$`

// NamePatternDotted is NamePattern for gateways and pipelines, which may hold single dots.
const NamePatternDotted = `^[\p{L}\p{Nd}_][\p{L}\p{Nd}_-]*(\.[\p{L}\p{Nd}_-]+)*$`

// NameAllowed says in one line what a name may be.
const NameAllowed = "a name is made of letters and digits of any script, - and _, begins with a letter, digit or _, and has at most 128 bytes"

// CheckName tells why a name is not accepted, "" when it is. The answer is the same on every platform: no path, SQL or
// topic is ever built from a raw name (directories carry UUIDs), so that names such as CON or 0000002 are fine. Combining
// marks are refused: two spellings of one name would look alike. dots accepts single dots inside.
func CheckName(name string, dots bool) string {
	switch {
	case name == "":
		return "the name is empty"
	case len(name) > NameBytesMax:
		return fmt.Sprintf("the name has %d bytes", len(name))
	case !utf8.ValidString(name):
		return "the name is not valid UTF-8"
	case name[0] == '$':
		return "names that begin with $ are reserved"
	case name[0] == '.' || name[0] == '-':
		return fmt.Sprintf("the name begins with %q", name[:1])
	case strings.Contains(name, ".."), strings.HasSuffix(name, "."):
		return "the name has a dot without a part behind it"
	}
	for _, r := range name {
		if unicode.IsLetter(r) || unicode.Is(unicode.Nd, r) || r == '-' || r == '_' || dots && r == '.' {
			continue
		}
		if r == '.' {
			return "the name has a dot (it separates a step from its port)"
		}
		return fmt.Sprintf("the name has the character %q", r)
	}
	return ""
}

// CheckFieldName tells why a name cannot be a column, a capture or a declared field: they are used in expressions.
func CheckFieldName(name string) string {
	if name == "" {
		return "the field name is empty"
	}
	if len(name) > NameBytesMax {
		return fmt.Sprintf("the field name has %d bytes", len(name))
	}
	for i, r := range name {
		if r == '_' || unicode.IsLetter(r) || i > 0 && unicode.Is(unicode.Nd, r) {
			continue
		}
		return fmt.Sprintf("the field name has the character %q", r)
	}
	return ""
}

// FieldNameAllowed says in one line what a field name may be.
const FieldNameAllowed = "a field name is made of letters, digits and _ and does not begin with a digit"
