package strict

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds that all documents share.
const (
	// NameMost is in bytes.
	NameMost = 128
	// SerialMost keeps serials exact in what reads numbers as doubles (jq, JavaScript).
	SerialMost = 1<<53 - 1
	// MsMost is the last millisecond of the year 9999.
	MsMost = 253402300799999
)

// Name refuses what is no name of a fleet, channel, gateway, board, roll-out or command: 1 to 128 bytes, no control or format characters (which hide in a terminal), no space at an end.
func Name(s string) error {
	switch {
	case s == "":
		return errors.New("no name")
	case len(s) > NameMost:
		return fmt.Errorf("a name of %d bytes, at most %d are allowed", len(s), NameMost)
	case strings.TrimSpace(s) != s:
		return fmt.Errorf("the name %q begins or ends with a space", s)
	case !utf8.ValidString(s):
		return fmt.Errorf("the name %q is not UTF-8", s)
	case strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) }):
		return fmt.Errorf("the name %q has characters that do not print", s)
	}
	return nil
}
