package window

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/weirstream/weir/pipeline"
)

// A sum keeps integers and floats apart: integers exactly in 128 bits, floats compensated (Neumaier) in the order of
// arrival. There is no multiplication, so that no architecture fuses anything.
//
//	0  low, 8 high  two's complement of 128 bits
//	16 sum, 24 compensation  float64 bits
//	32 count  of numbers, uint64
//	40 flags  1: a float was among them
const sumBytes = 41

const sumHasFloat = 1

func addToSum(acc []byte, v pipeline.Value) {
	acc = acc[:sumBytes]
	increment(acc[32:])
	if v.Kind == pipeline.Float {
		addFloat(acc, v.Float())
		return
	}
	low, carry := bits.Add64(binary.LittleEndian.Uint64(acc), v.Num, 0)
	high := binary.LittleEndian.Uint64(acc[8:]) + carry
	if v.Kind == pipeline.Int {
		high += uint64(v.Int() >> 63)
	}
	binary.LittleEndian.PutUint64(acc, low)
	binary.LittleEndian.PutUint64(acc[8:], high)
}

// mergeSum adds src to dst: exactly for integers, compensated for floats.
func mergeSum(dst, src []byte) {
	dst, src = dst[:sumBytes], src[:sumBytes]
	low, carry := bits.Add64(binary.LittleEndian.Uint64(dst), binary.LittleEndian.Uint64(src), 0)
	binary.LittleEndian.PutUint64(dst, low)
	binary.LittleEndian.PutUint64(dst[8:], binary.LittleEndian.Uint64(dst[8:])+binary.LittleEndian.Uint64(src[8:])+carry)
	binary.LittleEndian.PutUint64(dst[32:], binary.LittleEndian.Uint64(dst[32:])+binary.LittleEndian.Uint64(src[32:]))
	if src[40]&sumHasFloat == 0 {
		return
	}
	addFloat(dst, float64At(src[16:]))
	putFloat64(dst[24:], float64At(dst[24:])+float64At(src[24:]))
}

func addFloat(acc []byte, x float64) {
	acc[40] |= sumHasFloat
	sum, c := compensate(float64At(acc[16:]), float64At(acc[24:]), x)
	putFloat64(acc[16:], sum)
	putFloat64(acc[24:], c)
}

// compensate is one step of Neumaier's sum.
func compensate(sum, c, x float64) (float64, float64) {
	t := sum + x
	if math.Abs(sum) >= math.Abs(x) {
		c += (sum - t) + x
	} else {
		c += (x - t) + sum
	}
	return t, c
}

// sumResult is exact for integers: an Int, a Uint, or an Error when it fits neither. With a float among them it is a float:
// the integers' sum, rounded once, is added last.
func sumResult(acc []byte) pipeline.Value {
	if binary.LittleEndian.Uint64(acc[32:]) == 0 {
		return pipeline.Value{}
	}
	if acc[40]&sumHasFloat != 0 {
		return pipeline.FloatValue(floatTotal(acc))
	}
	low, high := binary.LittleEndian.Uint64(acc), int64(binary.LittleEndian.Uint64(acc[8:]))
	switch {
	case high == 0:
		return pipeline.UintValue(low)
	case high == -1 && int64(low) < 0:
		return pipeline.IntValue(int64(low))
	}
	return pipeline.ErrorValue("sum does not fit 64 bits")
}

// avgResult is the sum as a float64, rounded once, divided by the count.
func avgResult(acc []byte) pipeline.Value {
	count := binary.LittleEndian.Uint64(acc[32:])
	if count == 0 {
		return pipeline.Value{}
	}
	return pipeline.FloatValue(floatTotal(acc) / float64(count))
}

func floatTotal(acc []byte) float64 {
	whole := floatOf128(int64(binary.LittleEndian.Uint64(acc[8:])), binary.LittleEndian.Uint64(acc))
	if acc[40]&sumHasFloat == 0 {
		return whole
	}
	sum, c := compensate(float64At(acc[16:]), float64At(acc[24:]), whole)
	return sum + c
}

// floatOf128 rounds a 128-bit integer to the nearest float64, once.
func floatOf128(high int64, low uint64) float64 {
	sign := 1.0
	h := uint64(high)
	if high < 0 {
		sign = -1
		var borrow uint64
		low, borrow = bits.Sub64(0, low, 0)
		h = 0 - h - borrow
	}
	if h == 0 {
		return math.Copysign(float64(low), sign)
	}
	shift := 64 - bits.LeadingZeros64(h)
	top := h<<(64-shift) | low>>shift
	if low<<(64-shift) != 0 {
		top |= 1 // what was cut off is only needed to break ties
	}
	return math.Copysign(math.Ldexp(float64(top), shift), sign)
}

func float64At(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }

func putFloat64(b []byte, f float64) { binary.LittleEndian.PutUint64(b, math.Float64bits(f)) }
