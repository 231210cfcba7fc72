package strict

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// space passes over what JSON (RFC 8259, section 2) allows between its parts.
func (r *reader) space() {
	for r.i < len(r.b) && strings.IndexByte(" \t\r\n", r.b[r.i]) >= 0 {
		r.i++
	}
}

func (r *reader) take(c byte) bool {
	if r.i < len(r.b) && r.b[r.i] == c {
		r.i++
		return true
	}
	return false
}

func (r *reader) unexpected(want string) error {
	if r.i >= len(r.b) {
		return fmt.Errorf("it ends, want %s", want)
	}
	return fmt.Errorf("%q, want %s", r.b[r.i], want)
}

// text reads a string of at most so many bytes.
func (r *reader) text(most int) (string, error) {
	if !r.take('"') {
		return "", r.unexpected("a text")
	}
	var out []byte // of a text with escapes
	for start := r.i; ; {
		if r.i >= len(r.b) {
			return "", errors.New("a text without end")
		}
		switch c := r.b[r.i]; {
		case c == '"':
			if n := len(out) + r.i - start; n > most {
				return "", fmt.Errorf("a text of %d bytes, at most %d are allowed", n, most)
			}
			out = append(out, r.b[start:r.i]...)
			r.i++
			return string(out), nil
		case c < 0x20:
			return "", fmt.Errorf("the control character %q in a text", c)
		case c == '\\':
			out = append(out, r.b[start:r.i]...)
			char, err := r.escape()
			if err != nil {
				return "", err
			}
			out, start = utf8.AppendRune(out, char), r.i
		case c < utf8.RuneSelf:
			r.i++
		default:
			char, n := utf8.DecodeRune(r.b[r.i:])
			if char == utf8.RuneError && n == 1 {
				return "", errors.New("a text that is not UTF-8")
			}
			r.i += n
		}
		if len(out)+r.i-start > most+utf8.UTFMax {
			return "", fmt.Errorf("a text of more than %d bytes", most)
		}
	}
}

// escape reads a backslash and what it stands for.
func (r *reader) escape() (rune, error) {
	r.i++
	if r.i >= len(r.b) {
		return 0, errors.New("a text without end")
	}
	c := r.b[r.i]
	if at := strings.IndexByte(`"\/bfnrt`, c); at >= 0 {
		r.i++
		return rune("\"\\/\b\f\n\r\t"[at]), nil
	}
	if c != 'u' {
		return 0, fmt.Errorf("the escape \\%c", c)
	}
	first, err := r.unit()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	if r.i+1 < len(r.b) && r.b[r.i] == '\\' && r.b[r.i+1] == 'u' {
		r.i++
		second, err := r.unit()
		if char := utf16.DecodeRune(first, second); err != nil || char != utf8.RuneError {
			return char, err
		}
	}
	return 0, errors.New("half a surrogate pair in a text")
}

// unit reads uXXXX.
func (r *reader) unit() (rune, error) {
	if r.i+5 > len(r.b) {
		return 0, errors.New("a text without end")
	}
	n, err := strconv.ParseUint(string(r.b[r.i+1:r.i+5]), 16, 16)
	if err != nil {
		return 0, fmt.Errorf("the escape \\%q", r.b[r.i:r.i+5])
	}
	r.i += 5
	return rune(n), nil
}

func (r *reader) truth(v reflect.Value) error {
	for text, is := range map[string]bool{"true": true, "false": false} {
		if strings.HasPrefix(string(r.b[r.i:min(len(r.b), r.i+len(text))]), text) {
			r.i += len(text)
			v.SetBool(is)
			return nil
		}
	}
	return r.unexpected("true or false")
}

// digits reads a whole number as JSON writes it: no plus, no leading zero, no fraction, no exponent, no minus zero.
func (r *reader) digits() (string, error) {
	start := r.i
	r.take('-')
	first := r.i
	for r.i < len(r.b) && r.b[r.i] >= '0' && r.b[r.i] <= '9' {
		r.i++
	}
	text := string(r.b[start:min(r.i, start+24)])
	switch {
	case r.i == first:
		return "", r.unexpected("a whole number")
	case r.b[first] == '0' && (r.i > first+1 || first > start):
		return "", fmt.Errorf("the number %s, want it without leading zeros or sign", text)
	case r.i < len(r.b) && strings.IndexByte(".eE+-", r.b[r.i]) >= 0:
		return "", fmt.Errorf("%q behind the number %s, want a whole one, written out", r.b[r.i], text)
	case r.i-start > 20:
		return "", fmt.Errorf("the number %s…: too large", text)
	}
	return text, nil
}

func (r *reader) integer(v reflect.Value) error {
	text, err := r.digits()
	if err != nil {
		return err
	}
	n, err := strconv.ParseInt(text, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("the number %s does not fit", text)
	}
	v.SetInt(n)
	return nil
}

func (r *reader) unsigned(v reflect.Value) error {
	text, err := r.digits()
	if err != nil {
		return err
	}
	n, err := strconv.ParseUint(text, 10, v.Type().Bits())
	if err != nil {
		return fmt.Errorf("the number %s does not fit, want 0 or more", text)
	}
	v.SetUint(n)
	return nil
}

// printable is a name as an error may show it.
func printable(name string) string {
	if len(name) > 40 {
		name = name[:40] + "…"
	}
	q := strconv.Quote(name)
	if q[1:len(q)-1] == name {
		return name
	}
	return q
}
