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

// scanPlain goes from the opening quote at i to the first byte that is more than plain ASCII: the closing quote, an escape, or
// what scanText has to judge.
func scanPlain(src []byte, i int) int {
	for i++; i+8 <= len(src); i += 8 {
		if m := special(binary.LittleEndian.Uint64(src[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for i < len(src) && src[i] >= 0x20 && src[i] < 0x80 && src[i] != '"' && src[i] != '\\' {
		i++
	}
	return i
}

// decodeText is scanText and unescape in one pass, for the escaped string that opens at i: out takes the text and is no shorter than what is
// left of src. It gives the offset behind the closing quote and the length of the text.
func decodeText(src []byte, i int, out []byte) (end, n int, bad string) {
	i++
	for {
		for i+8 <= len(src) { // n never passes i, so the word fits
			w := binary.LittleEndian.Uint64(src[i:])
			binary.LittleEndian.PutUint64(out[n:], w)
			if m := special(w); m != 0 {
				k := bits.TrailingZeros64(m) >> 3
				i, n = i+k, n+k
				break
			}
			i, n = i+8, n+8
		}
		if i >= len(src) {
			return i, n, "unexpected end inside of a string"
		}
		switch c := src[i]; {
		case c == '"':
			return i + 1, n, ""
		case c == '\\':
			if i+1 < len(src) && src[i+1] == '"' { // JSON in JSON has little else
				out[n] = '"'
				i, n = i+2, n+1
				continue
			}
			length, bad := scanEscape(src[i:])
			if bad != "" {
				return i, n, bad
			}
			n += len(unescapeInto(out[n:], src[i:i+length]))
			i += length
		case c < 0x20:
			return i, n, "control character " + strconv.QuoteRune(rune(c)) + " inside of a string"
		case c < 0x80:
			out[n] = c
			i, n = i+1, n+1
		default:
			r, length := utf8.DecodeRune(src[i:])
			if r == utf8.RuneError && length == 1 {
				return i, n, "invalid UTF-8 inside of a string"
			}
			n += copy(out[n:], src[i:i+length])
			i += length
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

// wantedText scans the string that opens at i and gives its text: a part of the document, or, when it has escapes, memory that the
// texts of several documents share.
func (d *jsonDecoder) wantedText(i int) (end int, text []byte) {
	if at := scanPlain(d.src, i); at < len(d.src) && d.src[at] == '"' {
		return at + 1, d.src[i+1 : at]
	}
	room := len(d.src) - i
	if room > textChunk/8 { // the text itself may be short: look before memory is asked for
		end, escaped := d.text(i)
		if end < 0 || !escaped {
			return end, d.src[i+1 : max(end-1, i+1)]
		}
		if room = end - i; room > textChunk/8 {
			return end, unescape(d.src[i+1 : end-1])
		}
	}
	if len(d.memory) < room {
		d.memory = make([]byte, textChunk)
	}
	end, n, bad := decodeText(d.src[:i+room], i, d.memory[:room])
	if bad != "" {
		return d.fail(end, bad), nil
	}
	text, d.memory = d.memory[:n:n], d.memory[n:]
	return end, text
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
