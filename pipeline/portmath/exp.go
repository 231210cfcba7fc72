package portmath

import "math"

const (
	ln2Hi = 6.93147180369123816490e-01
	ln2Lo = 1.90821492927058770002e-10
)

// Exp is e**x, with math.Exp's special cases.
func Exp(x float64) float64 {
	const (
		overflow  = 7.09782712893383973096e+02
		underflow = -7.45133219101941108420e+02
		nearZero  = 1.0 / (1 << 28)
	)
	switch {
	case math.IsNaN(x) || math.IsInf(x, 1):
		return x
	case math.IsInf(x, -1) || x < underflow:
		return 0
	case x > overflow:
		return math.Inf(1)
	case -nearZero < x && x < nearZero:
		return 1 + x
	}
	half := 0.5
	if x < 0 {
		half = -0.5
	}
	k := int(float64(math.Log2E*x) + half)
	hi, lo := x-float64(float64(k)*ln2Hi), float64(float64(k)*ln2Lo)
	return scaled(hi, lo, k)
}

// scaled is e**(hi-lo) * 2**k, |hi-lo| at most ln(2)/2: x*P(x*x)/(2-P(x*x)) by Remez.
func scaled(hi, lo float64, k int) float64 {
	const (
		p1 = 1.66666666666666657415e-01
		p2 = -2.77777777770155933842e-03
		p3 = 6.61375632143793436117e-05
		p4 = -1.65339022054652515390e-06
		p5 = 4.13813679705723846039e-08
	)
	r := hi - lo
	t := float64(r * r)
	c := r - Polynomial(t, 0, p1, p2, p3, p4, p5)
	y := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	return math.Ldexp(y, k)
}

// Polynomial is c[0] + c[1]*t + c[2]*t*t + …, by Horner's rule.
func Polynomial(t float64, c ...float64) float64 {
	sum := 0.0
	for i := len(c) - 1; i >= 0; i-- {
		sum = c[i] + float64(sum*t)
	}
	return sum
}
