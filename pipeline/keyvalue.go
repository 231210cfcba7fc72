package pipeline

import (
	"encoding/binary"
	"errors"
	"math"
)

// ErrKeyBytes is returned for bytes that AppendKey did not write.
var ErrKeyBytes = errors.New("bytes are no encoded key")

// KeyValue reads one part of a key that AppendKey wrote and returns the bytes behind it. Text is copied into memory that
// lives as long as it is referenced. Equal numbers have one key, hence one form here: an integer where the number is one
// and fits 64 bits, else a float; 1.0 comes back as 1.
func (o *Out) KeyValue(key []byte) (v Value, rest []byte, err error) {
	if len(key) == 0 {
		return v, nil, ErrKeyBytes
	}
	tag, body := key[0], key[1:]
	switch tag {
	case keyNull:
		return Value{}, body, nil
	case keyFalse, keyTrue:
		return BoolValue(tag == keyTrue), body, nil
	case keyNumber:
		if len(body) < 10 {
			return v, nil, ErrKeyBytes
		}
		return numberOfKey(binary.BigEndian.Uint64(body), binary.BigEndian.Uint16(body[8:])), body[10:], nil
	case keyString, keyBytes, keyJSON:
		text, rest, err := o.keyText(body)
		return Value{Kind: textKinds[tag-keyString], Str: text}, rest, err
	}
	return v, nil, ErrKeyBytes
}

// textKinds are the kinds of the tags keyString, keyBytes and keyJSON.
var textKinds = [...]Kind{String, Bytes, JSON}

// numberOfKey is the inverse of appendNumberKey.
func numberOfKey(b uint64, above uint16) Value {
	if b>>63 == 1 {
		b &^= 1 << 63
	} else {
		b = ^b
	}
	f := math.Float64frombits(b)
	switch {
	case f != math.Trunc(f) || f < math.MinInt64 || f >= 1<<64:
		return Value{Kind: Float, Num: b}
	case f < 0:
		return IntValue(int64(f) + int64(above))
	}
	return UintValue(uint64(f) + uint64(above))
}

// keyText reads text up to its end mark 00 01, turning 00 FF back into 00.
func (o *Out) keyText(body []byte) (text string, rest []byte, err error) {
	escaped := false
	for i := 0; i+1 < len(body); i++ {
		if body[i] != 0 {
			continue
		}
		switch body[i+1] {
		case 0x01:
			if escaped {
				return o.Text(unescape(body[:i])), body[i+2:], nil
			}
			return o.Text(body[:i]), body[i+2:], nil
		case 0xFF:
			escaped = true
			i++
		default:
			return "", nil, ErrKeyBytes
		}
	}
	return "", nil, ErrKeyBytes
}

func unescape(b []byte) []byte {
	plain := make([]byte, 0, len(b))
	for i := 0; i < len(b); i++ {
		plain = append(plain, b[i])
		if b[i] == 0 {
			i++
		}
	}
	return plain
}
