package savepoint

import "encoding/binary"

// Entries are by far the most of a file: a million of them are read within a restart. So the three byte strings of an
// entry have code of their own, in the one form that deterministic CBOR has for them (RFC 8949 §4.2.1).

// appendEntry appends an array of three byte strings.
func appendEntry(dst, key, sub, val []byte) []byte {
	dst = append(dst, majorArray|3)
	return appendBytes(appendBytes(appendBytes(dst, key), sub), val)
}

func appendBytes(dst, b []byte) []byte {
	switch n := len(b); {
	case n < 24:
		dst = append(dst, majorBytes|byte(n))
	case n < 1<<8:
		dst = append(dst, majorBytes|24, byte(n))
	case n < 1<<16:
		dst = binary.BigEndian.AppendUint16(append(dst, majorBytes|25), uint16(n))
	default:
		dst = binary.BigEndian.AppendUint32(append(dst, majorBytes|26), uint32(n)) // chunkMax is far below
	}
	return append(dst, b...)
}

// nextEntry takes an entry off b; ok is false when b does not begin with one.
func nextEntry(b []byte) (key, sub, val, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != majorArray|3 {
		return nil, nil, nil, nil, false
	}
	b = b[1:]
	for _, to := range []*[]byte{&key, &sub, &val} {
		if *to, b, ok = nextBytes(b); !ok {
			return nil, nil, nil, nil, false
		}
	}
	return key, sub, val, b, true
}

func nextBytes(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0]>>5 != 2 {
		return nil, nil, false
	}
	n, head, least := uint64(b[0]&31), 1, uint64(0)
	switch {
	case n < 24:
	case n == 24 && len(b) >= 2:
		n, head, least = uint64(b[1]), 2, 24
	case n == 25 && len(b) >= 3:
		n, head, least = uint64(binary.BigEndian.Uint16(b[1:])), 3, 1<<8
	case n == 26 && len(b) >= 5:
		n, head, least = uint64(binary.BigEndian.Uint32(b[1:])), 5, 1<<16
	default:
		return nil, nil, false
	}
	if n < least || n > uint64(len(b)-head) { // a longer form than needed is no form
		return nil, nil, false
	}
	return b[head : head+int(n)], b[head+int(n):], true
}
