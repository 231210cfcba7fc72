package pipeline

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Tags of the key encoding, in sort order. The encoding is fixed for ever: it is in state and in savepoints.
const (
	keyNull   = 0x00
	keyFalse  = 0x01
	keyTrue   = 0x02
	keyNumber = 0x10
	keyString = 0x20
	keyBytes  = 0x21
	keyJSON   = 0x22
)

// ErrKey is returned for a value that cannot be part of a key (an Error value).
var ErrKey = errors.New("value cannot be a key")

// AppendKey appends the canonical, order-preserving encoding of v (DESIGN.md, "Key encoding"). Equal numbers have equal
// bytes whatever their kind: 1, 1.0 and uint 1 are one key, -0.0 is 0.0, 2^53+1 and 2^53 differ. A composite key is
// the concatenation of its parts; no part is a prefix of another.
func AppendKey(dst []byte, v Value) ([]byte, error) {
	switch v.Kind {
	case Null:
		return append(dst, keyNull), nil
	case Bool:
		if v.Bool() {
			return append(dst, keyTrue), nil
		}
		return append(dst, keyFalse), nil
	case Int, Uint, Float:
		return appendNumberKey(dst, v), nil
	case String:
		return appendTextKey(append(dst, keyString), v.Str), nil
	case Bytes:
		return appendTextKey(append(dst, keyBytes), v.Str), nil
	case JSON:
		return appendTextKey(append(dst, keyJSON), v.Str), nil
	}
	return dst, ErrKey
}

// appendNumberKey writes tag, the float64 at or below the number in sortable form, and the distance to it as uint16:
// integers up to 2^64 lie at most 2^11 above the float below them.
func appendNumberKey(dst []byte, v Value) []byte {
	var f float64
	var rest uint16
	switch v.Kind {
	case Int:
		i := v.Int()
		if i < 0 {
			f = floatFloorNegative(uint64(-(i + 1)) + 1)
			rest = uint16(uint64(i) - uint64(int64Saturated(f)))
		} else {
			f = floatFloor(uint64(i))
			rest = uint16(uint64(i) - uint64(f))
		}
	case Uint:
		f = floatFloor(v.Num)
		rest = uint16(v.Num - uint64(f))
	case Float:
		f = v.Float()
	}
	if f == 0 {
		f = 0 // -0.0 becomes 0.0
		dst = append(dst, keyNumber)
		dst = binary.BigEndian.AppendUint64(dst, 1<<63)
		return binary.BigEndian.AppendUint16(dst, rest)
	}
	b := math.Float64bits(f)
	if b>>63 == 1 {
		b = ^b
	} else {
		b |= 1 << 63
	}
	dst = append(dst, keyNumber)
	dst = binary.BigEndian.AppendUint64(dst, b)
	return binary.BigEndian.AppendUint16(dst, rest)
}

// floatFloor gives the largest float64 that is at most u.
func floatFloor(u uint64) float64 {
	if shift := 64 - bits.LeadingZeros64(u) - 53; shift > 0 {
		u = u >> uint(shift) << uint(shift)
	}
	return float64(u)
}

// floatFloorNegative gives the largest float64 that is at most -m.
func floatFloorNegative(m uint64) float64 {
	if shift := 64 - bits.LeadingZeros64(m) - 53; shift > 0 {
		down := m >> uint(shift) << uint(shift)
		if down != m {
			down += 1 << uint(shift)
		}
		return -float64(down)
	}
	return -float64(m)
}

// int64Saturated converts a float in [-2^63, 0].
func int64Saturated(f float64) int64 {
	if f <= math.MinInt64 {
		return math.MinInt64
	}
	return int64(f)
}

// appendTextKey escapes 0x00 as 00 FF and ends with 00 01, so that no text is a prefix of another and order is kept.
func appendTextKey(dst []byte, s string) []byte {
	if strings.IndexByte(s, 0) < 0 {
		dst = append(dst, s...)
		return append(dst, 0, 1)
	}
	for i := 0; i < len(s); i++ {
		if s[i] == 0 {
			dst = append(dst, 0, 0xFF)
			continue
		}
		dst = append(dst, s[i])
	}
	return append(dst, 0, 1)
}

// KeyGroups is the number of key groups. It is fixed: state is distributed by group, never by task (Flink's max parallelism).
const KeyGroups = 128

// KeyGroup is the group of a key, 0 to KeyGroups-1.
func KeyGroup(key []byte) int { return int(xxhash.Sum64(key) % KeyGroups) }

// KeyOwner is which of n instances (1 to KeyGroups) owns a key: each owns a run of groups.
func KeyOwner(key []byte, n int) int { return GroupOwner(KeyGroup(key), n) }

// GroupOwner is which of n instances owns a group.
func GroupOwner(group, n int) int { return group * n / KeyGroups }
