package topic

import "unicode/utf8"

// Fault says what makes a topic name ill-formed; "" when it is fine. Control characters other than U+0000 are accepted
// byte-exact: the standard only discourages them.
func Fault(name []byte) string {
	if len(name) == 0 {
		return "empty topic"
	}
	ascii := true
	for _, c := range name {
		switch {
		case c == 0:
			return "topic contains U+0000"
		case c == '+' || c == '#':
			return "topic contains a wildcard"
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	if !ascii && !utf8.Valid(name) { // encoded surrogates are invalid to utf8.Valid
		return "topic is not UTF-8"
	}
	return ""
}
