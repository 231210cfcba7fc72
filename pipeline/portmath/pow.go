package portmath

import "math"

// Pow is x**y, with math.Pow's special cases. Its error grows with y, as there.
func Pow(x, y float64) float64 {
	if special(x, y) {
		return math.Pow(x, y)
	}
	whole, fraction := math.Modf(math.Abs(y))
	if fraction != 0 && x < 0 {
		return math.NaN()
	}
	if whole >= 1<<63 {
		return math.Pow(x, y) // 0, 1 or Inf, by comparing alone
	}
	mantissa, exponent := 1.0, 0 // of the result
	if fraction != 0 {
		if fraction > 0.5 {
			fraction--
			whole++
		}
		mantissa = Exp(float64(fraction * Log(x)))
	}
	m, e := math.Frexp(x) // by squaring: x**whole
	for i := int64(whole); i != 0; i >>= 1 {
		if e < -1<<12 || 1<<12 < e { // more than math.Ldexp brings back: the result overflows, or is 0
			exponent += e
			break
		}
		if i&1 == 1 {
			mantissa = float64(mantissa * m)
			exponent += e
		}
		m = float64(m * m)
		e <<= 1
		if m < .5 {
			m += m
			e--
		}
	}
	if y < 0 {
		mantissa, exponent = 1/mantissa, -exponent
	}
	return math.Ldexp(mantissa, exponent)
}

// special tells whether math.Pow does no more than compare, divide or take a root, which is the same everywhere.
func special(x, y float64) bool {
	return y == 0 || x == 1 || y == 1 || x == 0 || y == 0.5 || y == -0.5 ||
		math.IsNaN(x) || math.IsNaN(y) || math.IsInf(x, 0) || math.IsInf(y, 0)
}
