package ops

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A ring is the samples of a key in one value: each row writes all of it. It is for few samples, and for keys with a ttl, which the one value keeps.

// ringHead: held, next (FORMAT.md).
const ringHead = 4 + 4

// checkRing refuses bytes that are no ring of n samples.
func checkRing(b []byte, n int) error {
	if len(b) != ringHead+8*n {
		return fmt.Errorf("%w: samples in %d bytes, %d of them take %d", ErrState, len(b), n, ringHead+8*n)
	}
	held, next := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if held == 0 || held > uint32(n) || next >= uint32(n) || held < uint32(n) && next != held {
		return fmt.Errorf("%w: %d of %d samples, the next at %d", ErrState, held, n, next)
	}
	for i := range int(held) {
		if f := ringAt(b, i); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("%w: sample %d is not finite", ErrState, i)
		}
	}
	return nil
}

func ringAt(b []byte, i int) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(b[ringHead+8*i:]))
}

// ringPush puts a sample in the place of the oldest.
func ringPush(b []byte, n int, f float64) {
	held, next := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	binary.LittleEndian.PutUint64(b[ringHead+8*next:], math.Float64bits(f))
	binary.LittleEndian.PutUint32(b, min(held+1, uint32(n)))
	binary.LittleEndian.PutUint32(b[4:], (next+1)%uint32(n))
}

// ringSamples appends the samples, the oldest first.
func ringSamples(dst []float64, b []byte) []float64 {
	held, next := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
	b = b[ringHead:]
	oldest := 0
	if len(b)/8 == held {
		oldest = next
	}
	return appendFloats(appendFloats(dst, b[8*oldest:8*held]), b[:8*oldest])
}

func appendFloats(dst []float64, b []byte) []float64 {
	for ; len(b) >= 8; b = b[8:] {
		dst = append(dst, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return dst
}
