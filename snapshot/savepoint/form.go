package savepoint

import (
	"encoding/binary"
	"errors"
	"unicode/utf8"
)

// The file is CBOR (RFC 8949) in its deterministic encoding (§4.2.1), of which it has few forms. They are written and read here: every head in its
// shortest form, the keys of a map rising, no indefinite lengths. What has another form was not written by an agent and is refused.

// Major types, where they stand in a head.
const (
	majorUint   = 0 << 5
	majorNeg    = 1 << 5
	majorBytes  = 2 << 5
	majorText   = 3 << 5
	majorArray  = 4 << 5
	majorMap    = 5 << 5
	majorTag    = 6 << 5
	majorSimple = 7 << 5

	formFalse = majorSimple | 20
	formTrue  = majorSimple | 21
	formNull  = majorSimple | 22 // of a nil slice
)

// Limits of what is read. A file may come from anywhere.
const (
	depthMax    = 8
	pairsMax    = 64
	elementsMax = 1 << 20
	// itemMax is the size of an item: a chunk that does not shrink, and a head with a long plan, are far below.
	itemMax = 64 << 20
)

var (
	errForm  = errors.New("not of the form of deterministic CBOR")
	errShort = errors.New("ends within an item")
)

// appendHead appends the head of an item.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < 24:
		return append(dst, major|byte(n))
	case n < 1<<8:
		return append(dst, major|24, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, major|25), uint16(n))
	case n < 1<<32:
		return binary.BigEndian.AppendUint32(append(dst, major|26), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|27), n)
}

// nextHead takes the head of an item off b. n is its argument: the number, the length, or the bits of a float.
func nextHead(b []byte) (major byte, n uint64, rest []byte, err error) {
	if len(b) == 0 {
		return 0, 0, nil, errShort
	}
	major, n = b[0]&^31, uint64(b[0]&31)
	if b = b[1:]; n < 24 {
		return major, n, b, nil
	}
	if n > 27 { // reserved, or of an indefinite length
		return 0, 0, nil, errForm
	}
	size := 1 << (n - 24)
	if len(b) < size {
		return 0, 0, nil, errShort
	}
	n = 0
	for _, c := range b[:size] {
		n = n<<8 | uint64(c)
	}
	least := uint64(24) // that needs this size
	switch {
	case major == majorSimple && size == 1:
		least = 32
	case major == majorSimple: // a float
		least = 0
	case size > 1:
		least = 1 << (4 * size)
	}
	if n < least {
		return 0, 0, nil, errForm
	}
	return major, n, b[size:], nil
}

// walk gives the length of the item that b begins with. errShort tells that b may be the beginning of one.
func walk(b []byte, depth int) (int, error) {
	major, n, rest, err := nextHead(b)
	if err != nil {
		return 0, err
	}
	at := len(b) - len(rest)
	switch major {
	case majorBytes, majorText:
		switch {
		case n > itemMax:
			return 0, errForm
		case n > uint64(len(rest)):
			return 0, errShort
		case major == majorText && !utf8.Valid(rest[:n]):
			return 0, errForm
		}
		return at + int(n), nil
	case majorArray, majorMap, majorTag:
		inner, err := walkInto(rest, major, n, depth-1)
		return at + inner, err
	}
	return at, nil
}

// walkInto gives the length of what an array, a map or a tag holds.
func walkInto(b []byte, major byte, n uint64, depth int) (at int, err error) {
	items := n
	switch {
	case depth == 0, major == majorArray && n > elementsMax, major == majorMap && n > pairsMax, major == majorTag && len(b) > 0 && !takesTag(n, b[0]):
		return 0, errForm
	case major == majorTag:
		items = 1
	case major == majorMap:
		items = 2 * n
	}
	var key []byte // the last
	for i := range items {
		size, err := walk(b[at:], depth)
		if err != nil {
			return 0, err
		}
		if major == majorMap && i%2 == 0 {
			if i > 0 && string(b[at:at+size]) <= string(key) {
				return 0, errForm
			}
			key = b[at : at+size]
		}
		at += size
	}
	return at, nil
}

// takesTag tells whether an item that begins with head may have a tag: those of RFC 8949 §3.4.1 to §3.4.3 want a kind of item, without which other readers refuse the file.
func takesTag(tag uint64, head byte) bool {
	switch major := head &^ 31; tag {
	case 0: // a date as text
		return major == majorText
	case 1: // seconds
		return major == majorUint || major == majorNeg || head >= majorSimple|25 && head <= majorSimple|27
	case 2, 3: // a large integer
		return major == majorBytes
	}
	return true
}
