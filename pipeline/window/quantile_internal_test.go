package window

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// TestBucketsRiseWithTheirNumbers: the order of buckets is that of numbers, and the middle of a bucket is as near as promised.
func TestBucketsRiseWithTheirNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.Float64().Draw(t, "a"), rapid.Float64().Draw(t, "b")
		if a > b {
			a, b = b, a
		}
		cut := rapid.SampledFrom([]uint8{0, 46, 47, 50, 52, 53, cutMax}).Draw(t, "cut")
		if x, y := bucketOf(a, cut), bucketOf(b, cut); x > y {
			t.Fatalf("cut %d: %g is in bucket %d, %g in %d", cut, a, x, b, y)
		}
		m := middle(bucketOf(a, cut), cut)
		if math.IsNaN(m) || math.IsInf(m, 0) {
			t.Fatalf("cut %d: the middle of %g's bucket is %g", cut, a, m)
		}
		bound := 0.0 // relative
		if cut > 0 && cut <= 52 {
			bound = 1/(2*math.Pow(2, float64(52-cut))+1) + 1e-12
		}
		if cut <= 52 && math.Abs(a) >= 0x1p-1022 && math.Abs(m-a) > bound*math.Abs(a) {
			t.Fatalf("cut %d: %g for %g, off by %g, want %g", cut, m, a, math.Abs(m-a)/math.Abs(a), bound)
		}
		for _, to := range []uint8{46, 49, cutMax} {
			if to > cut {
				if got, want := recut(bucketOf(a, cut), cut, to), bucketOf(a, to); got != want {
					t.Fatalf("%g: bucket %d of %d bits becomes %d, is %d", a, bucketOf(a, cut), cut, got, want)
				}
			}
		}
	})
}

// TestEveryFloatFitsTheLastCut: there is a cut at which few enough buckets hold all numbers.
func TestEveryFloatFitsTheLastCut(t *testing.T) {
	if n := 2*bucketOf(math.MaxFloat64, cutMax) + 1; n > bucketsMax {
		t.Errorf("%d buckets, want at most %d", n, bucketsMax)
	}
}

// exactQuantile is the definition.
func exactQuantile(x []float64, p float64) (value, low, high float64) {
	sorted := slices.Clone(x)
	sort.Float64s(sorted)
	rank := p / 100 * float64(len(x)-1)
	low, high = sorted[int(rank)], sorted[min(int(rank)+1, len(x)-1)]
	return low + (high-low)*(rank-math.Floor(rank)), low, high
}

var percentages = []float64{0, 1, 25, 50, 90, 95, 99, 99.9, 100}

func quantileAggs() (aggs []Agg) {
	for _, p := range percentages {
		aggs = append(aggs, Agg{Kind: Percentile, Param: p})
	}
	return aggs
}

// worstQuantile gives the largest distance from the definition, relative to the larger of the two numbers between which it lies.
func (s *accumulators) worstQuantile(c cell, x []float64) (worst float64) {
	for i, p := range percentages {
		want, low, high := exactQuantile(x, p)
		got := s.result(i, c, pipeline.NewOut("test", 1)).Float()
		if d := math.Abs(got - want); d > 0 {
			worst = max(worst, d/max(math.Abs(low), math.Abs(high)))
		}
	}
	return worst
}

var distributions = map[string]func(*rand.Rand) float64{
	"uniform":     func(r *rand.Rand) float64 { return r.Float64() * 100 },
	"temperature": func(r *rand.Rand) float64 { return 21 + r.NormFloat64()*3 },
	"around zero": func(r *rand.Rand) float64 { return r.NormFloat64() },
	"lognormal":   func(r *rand.Rand) float64 { return math.Exp(r.NormFloat64() * 1.5) },
	"pareto":      func(r *rand.Rand) float64 { return math.Pow(r.Float64(), -1.5) },
	"latency":     func(r *rand.Rand) float64 { return math.Trunc(1e3 + r.ExpFloat64()*1e5) },
}

// TestQuantilesAreWithinTheirBound on random data: the docs promise 1/129, 0.8 %.
func TestQuantilesAreWithinTheirBound(t *testing.T) {
	for name, draw := range distributions {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 1))
			s, _ := openAccumulators(t, quantileAggs()...)
			c := s.newCell(&s.state, "one")
			var x []float64
			var rows []row
			for i := range 20_000 {
				x = append(x, draw(r))
				rows = append(rows, row{pipeline.FloatValue(x[i]), int64(i), pipeline.Position(i + 1)})
			}
			s.addAll(c, rows)
			if worst := s.worstQuantile(c, x); worst > 1.0/129+1e-12 {
				t.Errorf("off by %.5f, want at most %.5f", worst, 1.0/129)
			} else {
				b, _ := s.state.sketches.GetSub(c.key, []byte{0})
				t.Logf("off by %.5f with %d buckets", worst, buckets(b).len())
			}
		})
	}
}

func TestQuantilesAreExactUpToTheirLimit(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 2))
	s, _ := openAccumulators(t, quantileAggs()...)
	c := s.newCell(&s.state, "one")
	var x []float64
	for i := range 5000 { // many numbers, exactMax different ones
		v := float64(r.IntN(exactMax)) / 7
		x = append(x, v)
		s.addAll(c, []row{{pipeline.FloatValue(v), int64(i), pipeline.Position(i + 1)}})
	}
	if worst := s.worstQuantile(c, x); worst > 1e-14 {
		t.Errorf("off by %g", worst)
	}
}

// TestNumbersOverAllPowersOfTwoWidenTheBound, and no more memory is used.
func TestNumbersOverAllPowersOfTwoWidenTheBound(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 3))
	s, _ := openAccumulators(t, quantileAggs()...)
	c := s.newCell(&s.state, "one")
	var x []float64
	for i := range 20_000 {
		x = append(x, math.Ldexp(1+r.Float64(), r.IntN(64)-32))
		s.addAll(c, []row{{pipeline.FloatValue(x[i]), int64(i), pipeline.Position(i + 1)}})
	}
	b, _ := s.state.sketches.GetSub(c.key, []byte{0})
	if k := buckets(b); k.cut() != 47 || k.len() > bucketsMax {
		t.Errorf("%d bits are cut, %d buckets", k.cut(), k.len())
	}
	if worst := s.worstQuantile(c, x); worst > 1.0/65+1e-12 {
		t.Errorf("off by %.5f", worst)
	}
}

// TestSketchesDoNotDependOnOrder: the bytes are the same however the rows came and whatever was merged with what.
func TestSketchesDoNotDependOnOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		wide, n := rapid.SampledFrom([]int{0, 3, 60, 1000}).Draw(t, "powers of two"), rapid.IntRange(1, 3000).Draw(t, "rows")
		var rows []row
		for i := range n {
			v := math.Ldexp(r.Float64()-0.5, r.IntN(wide+1)-wide/2)
			rows = append(rows, row{pipeline.FloatValue(v), int64(r.IntN(100)), pipeline.Position(i + 1)})
		}
		s, _ := openAccumulators(t, Agg{Kind: Median}, Agg{Kind: Distinct})
		one := s.newCell(&s.state, "one")
		s.addAll(one, rows)
		want := s.sideBytes(one)
		r.Shuffle(n, func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
		total := s.throughPanes(rows, rapid.Int64Range(1, 100).Draw(t, "pane"))
		if got := s.sideBytes(total); got != want || s.value(1, total) != s.value(1, one) {
			t.Fatalf("the sketches differ: distinct %s and %s", s.value(1, total), s.value(1, one))
		}
		for i := range s.aggs {
			b, ok := total.side.sketches.GetSub(total.key, []byte{byte(i)})
			if !ok {
				continue
			}
			if i == 1 {
				if err := checkRegisters(b); err != nil {
					t.Fatal(err)
				}
			} else if _, err := readQuantiles(b); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestPlantedSketchFaultsAreFound(t *testing.T) {
	var rows []row
	for i := range 3000 {
		rows = append(rows, row{pipeline.FloatValue(float64(i)), int64(i / 1400), pipeline.Position(i + 1)}) // 1400, 1400, 200
	}
	for name, plant := range map[string]func(*aggFault){"": func(*aggFault) {}, "unaligned": func(f *aggFault) { f.unaligned = true }, "unseen": func(f *aggFault) { f.unseen = true }} {
		s, _ := openAccumulators(t, Agg{Kind: Median}, Agg{Kind: Distinct})
		plant(&s.fault)
		one := s.newCell(&s.state, "one")
		s.addAll(one, rows)
		if found := s.sideBytes(s.throughPanes(rows, 1)) != s.sideBytes(one); found != (name != "") {
			t.Errorf("%q: found %v", name, found)
		}
	}
}

// sideBytes is all that a cell holds in sketches and seen.
func (s *accumulators) sideBytes(c cell) (all string) {
	c.side.sketches.RangeSub(c.key, func(sub, val []byte) bool { all += fmt.Sprintf("%x %x\n", sub, val); return true })
	if c.side.seen != nil {
		c.side.seen.RangeSub(c.key, func(sub, _ []byte) bool { all += fmt.Sprintf("%x\n", sub); return true })
	}
	return all
}

func TestQuantilesAllocateNothingInSteadyState(t *testing.T) {
	s, _ := openAccumulators(t, Agg{Kind: Median}, Agg{Kind: Percentile, Param: 95}, Agg{Kind: Distinct}, Agg{Kind: Rate})
	c := s.newCell(&s.state, "one")
	r := rand.New(rand.NewPCG(7, 4))
	args := make([]pipeline.Value, 1)
	slots := []pipeline.Value{{}}
	n := 0
	add := func() {
		n++
		slots[0] = pipeline.FloatValue(20 + r.Float64()*5)
		if s.arguments(slots, args) == "" {
			s.add(c, args, place{int64(n), pipeline.Position(n)})
		}
	}
	for range 5000 {
		add()
	}
	if a := testing.AllocsPerRun(2000, add); a != 0 {
		t.Errorf("%v allocations per row", a)
	}
}

func FuzzReadQuantiles(f *testing.F) {
	s, _ := openAccumulators(f, Agg{Kind: Median})
	for _, n := range []int{1, 10, 300} {
		c := s.newCell(&s.state, fmt.Sprint(n))
		for i := range n {
			s.addAll(c, []row{{pipeline.FloatValue(float64(i*i) - 40), 1, 1}})
		}
		b, _ := s.state.sketches.GetSub(c.key, []byte{0})
		f.Add(slices.Clone(b))
	}
	f.Fuzz(func(t *testing.T, val []byte) {
		b, err := readQuantiles(val)
		if err != nil {
			return
		}
		n := uint64(0)
		for i := range b.len() {
			if m := middle(b.number(i), b.cut()); math.IsNaN(m) || math.IsInf(m, 0) || b.cut() == 0 && bucketOf(m, 0) != b.number(i) {
				t.Fatalf("bucket %d of cut %d gives %g", b.number(i), b.cut(), m)
			}
			n += b.count(i)
		}
		cut, all := new(accumulators).sum(b, b.cut(), []bucket{{bucketOf(1, b.cut()), 1}})
		total := uint64(0)
		for _, x := range all {
			total += x.count
		}
		if total != n+1 || len(all) > bucketsAllowed(cut) {
			t.Fatalf("%d numbers in %d buckets, want %d", total, len(all), n+1)
		}
	})
}
