package codec

import (
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

func skipSpace(src []byte, i int) int {
	for i < len(src) {
		switch src[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

const (
	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// special marks the bytes of a word that end the fast way through a string: below 0x20, above 0x7f, quote, backslash.
// Only the lowest mark is sure to be right: borrows run upwards.
func special(w uint64) uint64 {
	quote := w ^ eachByte*'"'
	slash := w ^ eachByte*'\\'
	return ((w-eachByte*0x20)&^w | (quote-eachByte)&^quote | (slash-eachByte)&^slash | w) & highBits
}

// text scans the string that opens at i: the offset behind the closing quote, and whether there were escapes.
func (d *jsonDecoder) text(i int) (end int, escaped bool) {
	end, escaped, bad := scanText(d.src, i)
	if bad != "" {
		return d.fail(end, bad), false
	}
	return end, escaped
}

func scanText(src []byte, i int) (end int, escaped bool, bad string) {
	i++
	for {
		for i+8 <= len(src) {
			if m := special(binary.LittleEndian.Uint64(src[i:])); m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		if i >= len(src) {
			return i, false, "unexpected end inside of a string"
		}
		switch c := src[i]; {
		case c == '"':
			return i + 1, escaped, ""
		case c == '\\':
			escaped = true
			if i+1 < len(src) && src[i+1] == '"' { // JSON in JSON has little else
				i += 2
				continue
			}
			n, bad := scanEscape(src[i:])
			if bad != "" {
				return i, false, bad
			}
			i += n
		case c < 0x20:
			return i, false, "control character " + strconv.QuoteRune(rune(c)) + " inside of a string"
		case c < 0x80:
			i++
		default:
			r, n := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && n == 1 {
				return i, false, "invalid UTF-8 inside of a string"
			}
			i += n
		}
	}
}

// scanEscape checks the escape that begins b and gives its length.
func scanEscape(b []byte) (n int, bad string) {
	if len(b) < 2 {
		return 0, "unexpected end inside of a string"
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2, ""
	case 'u':
		r, ok := hex4(b)
		switch {
		case !ok:
			return 0, "bad \\u escape"
		case !utf16.IsSurrogate(r):
			return 6, ""
		}
		if low, ok := hex4(b[6:]); ok && utf16.DecodeRune(r, low) != utf8.RuneError {
			return 12, ""
		}
		return 0, "lone surrogate"
	}
	return 0, "bad escape \\" + strconv.QuoteRune(rune(b[1]))
}

// hex4 reads \uXXXX.
func hex4(b []byte) (rune, bool) {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[2:6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

// unescape decodes a string that scanText has accepted, into new memory.
func unescape(raw []byte) []byte { return unescapeInto(make([]byte, len(raw)), raw) }

// unescapeInto decodes into out, which is as long as raw: no escape is shorter than what it stands for. It gives the part used.
func unescapeInto(out, raw []byte) []byte {
	n := 0
	for i := 0; i < len(raw); n++ {
		c := raw[i]
		if c != '\\' {
			out[n] = c
			i++
			continue
		}
		switch c = raw[i+1]; c {
		case 'u':
			r, _ := hex4(raw[i:])
			i += 6
			if utf16.IsSurrogate(r) {
				low, _ := hex4(raw[i:])
				r = utf16.DecodeRune(r, low)
				i += 6
			}
			n += utf8.EncodeRune(out[n:], r) - 1
			continue
		case 'b':
			c = '\b'
		case 'f':
			c = '\f'
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		}
		out[n] = c
		i += 2
	}
	return out[:n:n]
}

// textChunk is how much memory for unescaped texts is asked for at once.
const textChunk = 32 << 10

// unescape is unescape into memory that the texts of several documents share.
func (d *jsonDecoder) unescape(raw []byte) []byte {
	if len(d.memory) < len(raw) {
		if len(raw) > textChunk/8 {
			return unescape(raw)
		}
		d.memory = make([]byte, textChunk)
	}
	text := unescapeInto(d.memory[:len(raw)], raw)
	d.memory = d.memory[len(text):]
	return text
}

// found is what stands at i, for an error.
func found(src []byte, i int) string {
	if i >= len(src) {
		return "the end"
	}
	return excerpt(string(src[i:min(len(src), i+excerptBytes+1)]))
}

const excerptBytes = 16

// excerpt quotes the beginning of what a device sent: bounded, and safe to print.
func excerpt(s string) string {
	if len(s) > excerptBytes {
		return strconv.QuoteToASCII(s[:excerptBytes]) + "…"
	}
	return strconv.QuoteToASCII(s)
}
