package window

import (
	"encoding/binary"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// stddev and variance keep count, mean and the sum of squared distances from the mean: Welford, "Note on a method for
// calculating corrected sums of squares and products", 1962. Two of them merge by Chan, Golub, LeVeque, "Updating formulae and
// a pairwise algorithm for computing sample variances", 1979. Products are rounded before they are added, so that no
// architecture fuses them.
//
//	0  count  uint64
//	8  mean, 16 squares  float64 bits
//
// A new mean lies between the old one and the number, so squares never fall. Once they or the mean leave the range of a float64 they
// are infinite or no number for good, and the result does not fit.
const momentsBytes = 24

func addToMoments(acc []byte, v pipeline.Value) {
	acc = acc[:momentsBytes]
	x := number(v)
	n := binary.LittleEndian.Uint64(acc) + 1
	mean := float64At(acc[8:])
	d := x - mean
	mean += d / float64(n)
	binary.LittleEndian.PutUint64(acc, n)
	putFloat64(acc[8:], mean)
	putFloat64(acc[16:], float64At(acc[16:])+float64(d*(x-mean)))
}

func (s *accumulators) mergeMoments(dst, src []byte) {
	a, b := binary.LittleEndian.Uint64(dst), binary.LittleEndian.Uint64(src)
	switch {
	case b == 0:
		return
	case a == 0:
		copy(dst[:momentsBytes], src)
		return
	}
	share := float64(b) / float64(a+b)
	d := float64At(src[8:]) - float64At(dst[8:])
	mean := float64At(dst[8:]) + float64(d*share)
	between := float64(float64(float64(d*d)*float64(a)) * share) // d² a b / n
	if s.fault.unweighted {
		between = 0
	}
	binary.LittleEndian.PutUint64(dst, a+b)
	putFloat64(dst[8:], mean)
	putFloat64(dst[16:], float64At(dst[16:])+float64At(src[16:])+between)
}

func momentsResult(k AggKind, acc []byte) pipeline.Value {
	n := binary.LittleEndian.Uint64(acc)
	if k == StddevSamp || k == VarianceSamp {
		n = max(n, 1) - 1
	}
	if n == 0 {
		return pipeline.Value{}
	}
	variance := float64At(acc[16:]) / float64(n)
	if k == Stddev || k == StddevSamp {
		return pipeline.FloatValue(math.Sqrt(variance))
	}
	return pipeline.FloatValue(variance)
}
