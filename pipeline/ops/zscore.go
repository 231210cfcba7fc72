package ops

import (
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
	blocks  *sampleBlocks // nil: the samples of a key are a ring
}

// ringMax is the most samples that are kept as a ring: no more bytes than what the other form writes with each row.
const ringMax = 2 * blockSamples

// NewZScore makes a zscore from a valid config.
func NewZScore(c ZScoreConfig) *ZScore {
	z := &ZScore{memory: memory{k: c.Keyed}, c: c, samples: make([]float64, 0, c.N)}
	if c.N > ringMax && c.TTL == 0 {
		z.blocks = newSampleBlocks(c.N, blockSamples)
	}
	return z
}

// Open implements pipeline.Operator.
func (z *ZScore) Open(tables pipeline.Tables) error {
	if z.blocks == nil {
		return z.open(tables, samplesTable, "ops.zscore", ringVersion)
	}
	if err := z.open(tables, samplesTable, "ops.zscore", blocksVersion); err != nil {
		return err
	}
	return z.blocks.open(tables)
}

// Restored implements pipeline.Operator.
func (z *ZScore) Restored() error {
	if z.blocks != nil {
		return z.blocks.check(z.table)
	}
	return z.check(func(val []byte) error { return checkRing(val, z.c.N) })
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
	if !z.sample(x, r, out) {
		return
	}
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

// sample puts the samples that are held into z.samples, the oldest first, and then takes in x; false: the row was refused.
func (z *ZScore) sample(x float64, r *pipeline.Row, out *pipeline.Out) bool {
	size := ringHead + 8*z.c.N
	if z.blocks != nil {
		size = z.blocks.headBytes()
	}
	entry := z.room(size, r, out)
	switch {
	case entry == nil:
		return false
	case z.blocks != nil:
		z.samples = z.blocks.samples(z.samples[:0], z.key, entry)
		z.blocks.push(z.key, entry, x)
	default:
		z.samples = ringSamples(z.samples[:0], entry)
		ringPush(entry, z.c.N, x)
	}
	return true
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
