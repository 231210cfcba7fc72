package portmath

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"
)

var odd = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, -0.5, 2, 3, -3, 1e-9, -1e-9, 1e-300, 5e-324, -5e-324, math.MaxFloat64, -math.MaxFloat64,
	709.78271289338397, 709.78271289338409, -745.13321910194122, -745.13321910194111, 1 << 62, 1 << 63, 1 << 64, 1e308, math.Pi, math.Sqrt2 / 2, math.Inf(1), math.Inf(-1), math.NaN()}

// apart is how many floats lie between two of one sign.
func apart(a, b float64) uint64 {
	x, y := math.Float64bits(a), math.Float64bits(b)
	return max(x, y) - min(x, y)
}

func same(a, b float64) bool { return a == b || a != a && b != b }

// arguments draws numbers of every size.
func arguments(random *rand.Rand) (x, y float64) {
	x = random.NormFloat64() * math.Pow(2, float64(random.IntN(40)-20))
	y = random.NormFloat64() * math.Pow(2, float64(random.IntN(12)-6))
	if random.IntN(3) == 0 {
		y = float64(random.IntN(41) - 20)
	}
	if random.IntN(50) == 0 {
		x = math.Float64frombits(random.Uint64())
	}
	return x, y
}

// TestNearTheStandardLibrary: special cases as there, else the neighbours at most.
func TestNearTheStandardLibrary(t *testing.T) {
	check := func(name string, x, y, got, want float64, most uint64) {
		t.Helper()
		if math.IsInf(want, 1) && got >= 0x1p1023 { // math.Exp of amd64 overflows where 2**1024 is a factor of what it computes
			return
		}
		if tiny := math.Abs(x) < 0x1p-1022 && x != 0; tiny && name != "exp" { // math.Log of amd64 takes them for 2**-1023
			return
		}
		if ok := same(got, want) || !math.IsInf(want, 0) && !math.IsNaN(want) && !math.IsInf(got, 0) && !math.IsNaN(got) && apart(got, want) <= most; !ok {
			t.Fatalf("%s(%g, %g) = %g, want %g", name, x, y, got, want)
		}
	}
	for _, x := range odd {
		check("exp", x, 0, Exp(x), math.Exp(x), 2)
		check("log", x, 0, Log(x), math.Log(x), 2)
		for _, y := range odd {
			check("pow", x, y, Pow(x, y), math.Pow(x, y), 4)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 300_000 {
		x, y := arguments(random)
		check("exp", x, 0, Exp(x), math.Exp(x), 2)
		check("log", x, 0, Log(x), math.Log(x), 2)
		check("pow", x, y, Pow(x, y), math.Pow(x, y), 64)
	}
}

// TestTheLogarithmOfTheSmallest is that of its mantissa and exponent.
func TestTheLogarithmOfTheSmallest(t *testing.T) {
	for e := -1074; e < -1022; e++ {
		if got, want := Log(math.Ldexp(1, e)), float64(e)*math.Ln2; math.Abs(got-want) > 1e-12 {
			t.Errorf("log(2**%d) = %g, want %g", e, got, want)
		}
	}
}

// bitsOf is a digest of what three functions make of many arguments.
func bitsOf(exp, log func(float64) float64, pow func(x, y float64) float64) string {
	random := rand.New(rand.NewPCG(3, 4))
	h := sha256.New()
	for range 50_000 {
		x, y := arguments(random)
		put(h, exp(x), log(math.Abs(x)), pow(math.Abs(x), y), pow(x, y))
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func put(h hash.Hash, all ...float64) {
	for _, f := range all {
		if f != f { // of which there are many, and no result is one
			f = 0
		}
		h.Write(binary.LittleEndian.AppendUint64(nil, math.Float64bits(f)))
	}
}

// TestTheBitsAreThoseOfEveryProcessor: the digest stands here, so that each processor that runs the tests is held to it. The standard library's
// functions, which are allowed to differ, show that the arguments tell.
func TestTheBitsAreThoseOfEveryProcessor(t *testing.T) {
	if got := bitsOf(Exp, Log, Pow); got != digest {
		t.Errorf("the digest is %s, elsewhere it is %s", got, digest)
	}
	own := runtime.GOARCH == "amd64" || runtime.GOARCH == "arm64" // code of its own; elsewhere the library computes as we do
	if own && bitsOf(math.Exp, Log, Pow) == digest && bitsOf(Exp, math.Log, Pow) == digest {
		t.Error("these arguments find no difference between two ways to compute")
	}
}

const digest = "7cec58a7f8d8e6f2"

func BenchmarkExp(b *testing.B) { bench(b, Exp) }
func BenchmarkLog(b *testing.B) { bench(b, Log) }

func bench(b *testing.B, f func(float64) float64) {
	b.ReportAllocs()
	x := 1.5
	for b.Loop() {
		x = 1 + math.Abs(f(x))/4
	}
}
