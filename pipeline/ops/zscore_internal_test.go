package ops

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exact computes mean, deviation and score with so many digits that their rounding is right.
func exact(samples []float64, x float64) (score, mean, sd float64) {
	wide := func(f float64) *big.Float { return new(big.Float).SetPrec(6000).SetFloat64(f) }
	n := wide(float64(len(samples)))
	m, squares := wide(0), wide(0)
	for _, s := range samples {
		m.Add(m, wide(s))
	}
	m.Quo(m, n)
	for _, s := range samples {
		d := wide(0).Sub(wide(s), m)
		squares.Add(squares, d.Mul(d, d))
	}
	v := squares.Quo(squares, n).Sqrt(squares)
	d := wide(0).Sub(wide(x), m)
	mean, _ = m.Float64()
	sd, _ = v.Float64()
	if v.Sign() > 0 {
		score, _ = d.Quo(d, v).Float64()
	}
	return score, mean, sd
}

// TestZScoreIsSound: against the exact answer, for samples of any scale, also around a mean that is large against their
// deviation, where a sum of squares less a square of sums has no right digit left.
func TestZScoreIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 50).Draw(t, "n")
		base := rapid.SampledFrom([]float64{0, 1, -40.5, 1e9, -1e12, 1e15, 1e300, 1e-300, -1e305}).Draw(t, "base")
		spread := rapid.SampledFrom([]float64{1e-6, 1, 100, 1e10, 1e-310, 1e301}).Draw(t, "spread")
		var samples []float64
		for range n {
			samples = append(samples, base+spread*rapid.Float64Range(-1, 1).Draw(t, "sample"))
		}
		x := base + spread*rapid.Float64Range(-10, 10).Draw(t, "x")
		wantScore, wantMean, wantSD := exact(samples, x)
		score, mean, sd := zscore(append([]float64(nil), samples...), x)
		largest := 0.0
		for _, s := range samples {
			largest = max(largest, math.Abs(s))
		}
		if math.IsNaN(score) || math.IsInf(score, 0) || math.IsInf(mean, 0) || math.IsInf(sd, 0) {
			t.Fatalf("%v: %v %v %v are not all finite", samples, score, mean, sd)
		}
		if math.Abs(mean-wantMean) > 4e-16*largest+5e-324 {
			t.Fatalf("mean %v, want %v", mean, wantMean)
		}
		// The mean is rounded to a float: what lies within its last digit is no deviation that can be told.
		floor := 4e-16 * largest
		if math.Abs(sd-wantSD) > 1e-9*wantSD+floor+5e-324 {
			t.Fatalf("deviation %v, want %v", sd, wantSD)
		}
		if wantSD > 1e8*floor && wantSD > 1e-300 && math.Abs(score-wantScore) > 1e-6*math.Abs(wantScore)+1e-6 {
			t.Fatalf("score %v, want %v", score, wantScore)
		}
	})
}

func TestZScoreBeyondAFloat(t *testing.T) {
	for _, samples := range [][]float64{
		{math.MaxFloat64, -math.MaxFloat64, 0}, {5e-324, 0, 5e-324}, {math.MaxFloat64, math.MaxFloat64, math.Nextafter(math.MaxFloat64, 0)},
	} {
		for _, x := range []float64{math.MaxFloat64, -math.MaxFloat64, 5e-324, 0} {
			score, mean, sd := zscore(append([]float64(nil), samples...), x)
			for _, f := range []float64{score, mean, sd} {
				if math.IsNaN(f) || math.IsInf(f, 0) {
					t.Errorf("%v of %v: %v %v %v", x, samples, score, mean, sd)
				}
			}
		}
	}
}

// TestRing: the samples come out as a plain list would have them.
func TestRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 9).Draw(t, "n")
		ring := make([]byte, ringHead+8*n)
		var list []float64
		for i := range rapid.IntRange(1, 30).Draw(t, "pushes") {
			ringPush(ring, n, float64(i))
			list = append(list, float64(i))
			list = list[max(0, len(list)-n):]
			got := ringSamples(nil, ring)
			if len(got) != len(list) {
				t.Fatalf("%v, want %v", got, list)
			}
			for k := range got {
				if got[k] != list[k] {
					t.Fatalf("%v, want %v", got, list)
				}
			}
			if err := checkRing(ring, n); err != nil {
				t.Fatal(err)
			}
		}
	})
}
