package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
)

// ZScoreMax is the largest number of samples: each takes 8 bytes of state per key and a few ns per row.
const ZScoreMax = 10000

// ZScoreConfig sets up a zscore.
type ZScoreConfig struct {
	Keyed
	Carry
	Value                   *expr.Program
	N                       int     // previous samples of the key that a value is judged by
	Limit                   float64 // a row passes when |z| is above it
	ZSlot, MeanSlot, SDSlot int     // own columns
}

// Validate names the field that is wrong.
func (c ZScoreConfig) Validate() error {
	switch {
	case c.Value == nil:
		return fmt.Errorf("%w: zscore: value is missing", ErrConfig)
	case c.N < 2 || c.N > ZScoreMax:
		return fmt.Errorf("%w: zscore: n is %d, want 2 to %d", ErrConfig, c.N, ZScoreMax)
	case !(c.Limit >= 0) || math.IsInf(c.Limit, 1):
		return fmt.Errorf("%w: zscore: limit is %v, want a number from 0 on", ErrConfig, c.Limit)
	}
	return c.validate("zscore")
}

// ZScore passes the rows whose value lies more than Limit standard deviations from the mean of the N previous samples of its
// key. The row itself is not among them; then it joins them, an outlier too. There is no verdict until N are held, nor when they
// are all equal: the deviation is 0 then. A null value is no sample. Rows without verdict and those within the limit are dropped.
type ZScore struct {
	memory
	c       ZScoreConfig
	samples []float64
}

// NewZScore makes a zscore from a valid config.
func NewZScore(c ZScoreConfig) *ZScore {
	return &ZScore{memory: memory{k: c.Keyed}, c: c, samples: make([]float64, 0, c.N)}
}

// ringHead: held, next (FORMAT.md).
const ringHead = 4 + 4

// Open implements pipeline.Operator.
func (z *ZScore) Open(tables pipeline.Tables) error { return z.open(tables, "samples", "ops.zscore") }

// Restored implements pipeline.Operator.
func (z *ZScore) Restored() error {
	return z.check(func(val []byte) error { return checkRing(val, z.c.N) })
}

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

// Process implements pipeline.Operator.
func (z *ZScore) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := z.c.Value.Eval(r.Slots)
	if v.IsNull() {
		out.Counters.Dropped++
		return
	}
	x, ok := v.AsFloat()
	if !ok {
		refuseValue(out, r, "zscore value", v)
		return
	}
	z.at(r, out)
	ring := z.room(ringHead+8*z.c.N, r, out)
	if ring == nil {
		return
	}
	z.samples = ringSamples(z.samples[:0], ring)
	ringPush(ring, z.c.N, x)
	if len(z.samples) < z.c.N {
		out.Counters.Dropped++
		return
	}
	score, mean, sd := zscore(z.samples, x)
	if sd == 0 || !(math.Abs(score) > z.c.Limit) {
		out.Counters.Dropped++
		return
	}
	slots := z.c.row(r, out)
	slots[z.c.ZSlot], slots[z.c.MeanSlot], slots[z.c.SDSlot] = pipeline.FloatValue(score), pipeline.FloatValue(mean), pipeline.FloatValue(sd)
	out.Emit(0, r.Time, slots)
}

// scaleAbove and scaleBelow bound the exponents within which squares of samples neither overflow nor vanish.
const (
	scaleAbove = 450
	scaleBelow = -400
)

// zscore gives how many population standard deviations x lies from the mean of the samples, and both. All three are finite: samples
// beyond the range in which their squares are, are scaled by a power of two, which is exact; a score beyond a float64 is the
// largest one. The deviation is the corrected two-pass one (Chan, Golub, LeVeque: Algorithms for Computing the Sample Variance,
// 1983), over a compensated sum (Neumaier 1974), in the order of arrival: the same on every device.
func zscore(samples []float64, x float64) (score, mean, sd float64) {
	low, high := samples[0], samples[0]
	for _, s := range samples {
		if s < low {
			low = s
		} else if s > high {
			high = s
		}
	}
	if low == high { // their mean may be off by a rounding, and then the deviation too
		return 0, low, 0
	}
	_, exponent := math.Frexp(max(high, -low))
	if exponent > scaleBelow && exponent < scaleAbove {
		exponent = 0
	}
	if exponent != 0 {
		for i := range samples {
			samples[i] = math.Ldexp(samples[i], -exponent)
		}
		x = math.Ldexp(x, -exponent)
	}
	n := float64(len(samples))
	var sum compensated
	for _, s := range samples {
		sum.add(s)
	}
	mean = sum.value() / n
	squares, drift := 0.0, 0.0
	for _, s := range samples {
		d := s - mean
		squares += float64(d * d)
		drift += d
	}
	variance := (squares - float64(drift*drift)/n) / n
	if variance <= 0 {
		return 0, finite(math.Ldexp(mean, exponent)), 0
	}
	sd = math.Sqrt(variance)
	score = finite((x - mean) / sd)
	return score, finite(math.Ldexp(mean, exponent)), finite(math.Ldexp(sd, exponent))
}

func finite(f float64) float64 { return min(max(f, -math.MaxFloat64), math.MaxFloat64) }

// compensated is a sum that keeps what each addition rounds off (Neumaier).
type compensated struct{ sum, lost float64 }

func (c *compensated) add(f float64) {
	t := c.sum + f
	if math.Abs(c.sum) >= math.Abs(f) {
		c.lost += (c.sum - t) + f
	} else {
		c.lost += (f - t) + c.sum
	}
	c.sum = t
}

func (c *compensated) value() float64 { return c.sum + c.lost }
