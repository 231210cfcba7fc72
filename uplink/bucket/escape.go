package bucket

import (
	"encoding/hex"
	"fmt"
	"strings"
)

// Escape makes one element of a name of any text: letters, digits, - and, but at its beginning, _ and . stay; each other byte becomes ~XX. No two texts give the same.
func Escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		safe := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '_' && i > 0 || c == '.' && i > 0
		if safe {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "~%02X", c)
		}
	}
	return b.String()
}

// Unescape is Escape's inverse. It reads more than Escape writes: who takes names apart compares.
func Unescape(s string) (string, bool) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '~' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 > len(s) {
			return "", false
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", false
		}
		b.WriteByte(c[0])
		i += 2
	}
	return b.String(), true
}
