package window

import (
	"encoding/binary"
	"fmt"
	"math"
)

// tumbling assigns each time to the one window [start, start+size) with start = offset + k*size, k any integer.
type tumbling struct{ size, offset int64 }

// start is pure; size is above 0 and offset in [0, size). t is within assignable.
func (w tumbling) start(t int64) int64 {
	past := (t - w.offset) % w.size
	if past < 0 {
		past += w.size
	}
	return t - past
}

// assignable tells whether windows around t have bounds, with any size and lateness that Validate lets through.
func assignable(t int64) bool { return t > math.MinInt64/4 && t < math.MaxInt64/4 }

// spanMax bounds size and lateness, so that the end of a window and its lateness never overflow.
const spanMax = math.MaxInt64 / 8

// startBytes is the length of a window's start at the head of an entry's key.
const startBytes = 8

// KeyAt is where a row's key begins in a key of the window's tables.
const KeyAt = startBytes

// appendStart writes a start so that byte order is number order.
func appendStart(dst []byte, start int64) []byte {
	return binary.BigEndian.AppendUint64(dst, uint64(start)^1<<63)
}

// splitKey is the inverse of appendStart followed by the bytes of the key.
func splitKey(b []byte) (start int64, key []byte, err error) {
	if len(b) < startBytes {
		return 0, nil, fmt.Errorf("%w: window key of %d bytes", ErrState, len(b))
	}
	return int64(binary.BigEndian.Uint64(b) ^ 1<<63), b[startBytes:], nil
}
