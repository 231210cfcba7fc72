package window

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
)

// median and percentile keep a sketch of buckets: DDSketch (Masson, Rim, Lee, VLDB 2019) with the buckets of a linear
// interpolation, which need no logarithm and so are the same on every architecture: a bucket is all numbers that agree in
// their upper bits. With 0 bits cut off a bucket is one number and the sketch exact; that lasts up to exactMax different
// numbers. Then 46 bits are cut: 6 bits of the mantissa stay, and a bucket's middle is within 1/129 of all numbers in it. When
// there are more than bucketsMax, one bit more is cut and neighbours fall together (UDDSketch, Epicoco et al., IEEE Access 2020): 1/65,
// 1/33 … That takes values that fill more than 32 powers of two, both signs counted.
//
// How many bits are cut is the least that makes few enough buckets of all numbers so far. So neither the order of what is
// added nor that of merging shows.
//
// The entry has the count of numbers. The sketch lies in the table "sketch": cut bits, then the buckets in the order of
// their numbers, each its number (int64) and count (uint64).
const (
	quantilesBytes = 8
	exactMax       = 256
	bucketsMax     = 2048
	cutFirst       = 46
	cutMax         = 54

	sketchHead  = 1
	bucketBytes = 16
)

// bucketOf numbers the bucket of x so that numbers rise with x: 0 for zero and what is too small for a normal float64 once bits are
// cut.
func bucketOf(x float64, cut uint8) int64 {
	b := int64(math.Float64bits(math.Abs(x)))
	switch {
	case cut == 0:
	case b < 1<<52:
		b = 0
	default:
		b = b>>cut + 1
	}
	if x < 0 {
		return -b
	}
	return b
}

// recut moves a bucket to more cut bits.
func recut(bucket int64, from, to uint8) int64 {
	if from == 0 {
		return bucketOf(middle(bucket, 0), to)
	}
	b := bucket
	if b < 0 {
		b = -b
	}
	if b > 0 {
		b = (b-1)>>(to-from) + 1
	}
	if bucket < 0 {
		return -b
	}
	return b
}

// middle is the number whose relative distance to both ends of a bucket is the same.
func middle(bucket int64, cut uint8) float64 {
	b := uint64(bucket)
	if bucket < 0 {
		b = uint64(-bucket)
	}
	var x float64
	switch {
	case cut == 0:
		x = math.Float64frombits(b)
	case b == 0:
		return 0
	default:
		low, high := math.Float64frombits((b-1)<<cut), math.Float64frombits(b<<cut)
		if !(high > low) || math.IsInf(high, 0) { // the last bucket ends with the largest number
			high = math.MaxFloat64
		}
		x = low * (high / (float64(low/2) + float64(high/2))) // 2 low high / (low + high), without leaving the range
	}
	if bucket < 0 {
		return -x
	}
	return x
}

// buckets is a sketch in its bytes.
type buckets []byte

func (b buckets) cut() uint8 { return b[0] }
func (b buckets) len() int   { return (len(b) - sketchHead) / bucketBytes }
func (b buckets) number(i int) int64 {
	return int64(binary.LittleEndian.Uint64(b[sketchHead+i*bucketBytes:]))
}
func (b buckets) count(i int) uint64 {
	return binary.LittleEndian.Uint64(b[sketchHead+i*bucketBytes+8:])
}

func (b buckets) set(i int, number int64, count uint64) {
	binary.LittleEndian.PutUint64(b[sketchHead+i*bucketBytes:], uint64(number))
	binary.LittleEndian.PutUint64(b[sketchHead+i*bucketBytes+8:], count)
}

// find gives the place of a bucket, or where it belongs.
func (b buckets) find(number int64) (at int, found bool) {
	lo, hi := 0, b.len()
	for lo < hi {
		m := (lo + hi) / 2
		if b.number(m) < number {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < b.len() && b.number(lo) == number
}

// noBuckets is an empty sketch. It is only read.
var noBuckets = []byte{0}

// readQuantiles checks a sketch.
func readQuantiles(val []byte) (buckets, error) {
	b := buckets(val)
	if len(b) < sketchHead || (len(b)-sketchHead)%bucketBytes != 0 || b.cut() != 0 && b.cut() < cutFirst || b.cut() > cutMax {
		return nil, fmt.Errorf("%w: quantile sketch of %d bytes", ErrState, len(val))
	}
	if b.len() > bucketsMax || b.cut() == 0 && b.len() > exactMax {
		return nil, fmt.Errorf("%w: quantile sketch of %d buckets", ErrState, b.len())
	}
	top := bucketOf(math.MaxFloat64, b.cut())
	for i := range b.len() {
		if n := b.number(i); b.count(i) == 0 || n > top || n < -top || i > 0 && n <= b.number(i-1) {
			return nil, fmt.Errorf("%w: quantile sketch, bucket %d", ErrState, i)
		}
	}
	return b, nil
}

func (s *accumulators) addToQuantiles(i int, c cell, acc []byte, v pipeline.Value) {
	increment(acc)
	x := number(v)
	if x == 0 {
		x = 0 // -0.0 is 0.0
	}
	have, ok := c.side.sketches.GetSub(c.key, s.subkey(i))
	b := buckets(have)
	if !ok {
		b = s.resizeSketch(c, i, sketchHead)
	}
	n := bucketOf(x, b.cut())
	at, found := b.find(n)
	if found {
		b = s.resizeSketch(c, i, len(b)) // writable
		b.set(at, n, b.count(at)+1)
		return
	}
	if b.len() < bucketsAllowed(b.cut()) {
		size := len(b)
		b = s.resizeSketch(c, i, size+bucketBytes)
		copy(b[sketchHead+(at+1)*bucketBytes:], b[sketchHead+at*bucketBytes:size])
		b.set(at, n, 1)
		return
	}
	s.more = append(s.more[:0], bucket{n, 1})
	cut, all := s.sum(b, b.cut(), s.more)
	s.putSketch(c, i, cut, all)
}

func bucketsAllowed(cut uint8) int {
	if cut == 0 {
		return exactMax
	}
	return bucketsMax
}

func (s *accumulators) resizeSketch(c cell, i, size int) buckets {
	b, _, err := c.side.sketches.UpsertSub(c.key, s.subkey(i), size)
	mustPut(err)
	return b
}

// bucket is one of a sketch out of its bytes.
type bucket struct {
	number int64
	count  uint64
}

// sum adds more, sorted buckets of a cut, to a sketch, and cuts until there are few enough. The result is valid until the next call.
func (s *accumulators) sum(b buckets, cut uint8, more []bucket) (uint8, []bucket) {
	have := s.have[:0]
	for i := range b.len() {
		have = append(have, bucket{b.number(i), b.count(i)})
	}
	to := max(b.cut(), cut)
	all := mergeBuckets(s.all[:0], recutAll(have, b.cut(), to), recutAll(more, cut, to))
	s.have, s.all = have, all
	for len(all) > bucketsAllowed(to) {
		next := max(to+1, cutFirst)
		all, to = recutAll(all, to, next), next
	}
	return to, all
}

// recutAll moves sorted buckets to more cut bits, which leaves them sorted, and adds up those that fall together. It works in place.
func recutAll(all []bucket, from, to uint8) []bucket {
	if from == to {
		return all
	}
	kept := all[:0]
	for _, x := range all {
		x.number = recut(x.number, from, to)
		if n := len(kept); n > 0 && kept[n-1].number == x.number {
			kept[n-1].count += x.count
			continue
		}
		kept = append(kept, x)
	}
	return kept
}

// mergeBuckets appends two sorted lists as one.
func mergeBuckets(dst, a, b []bucket) []bucket {
	for len(a) > 0 && len(b) > 0 {
		switch {
		case a[0].number < b[0].number:
			dst, a = append(dst, a[0]), a[1:]
		case a[0].number > b[0].number:
			dst, b = append(dst, b[0]), b[1:]
		default:
			dst, a, b = append(dst, bucket{a[0].number, a[0].count + b[0].count}), a[1:], b[1:]
		}
	}
	return append(append(dst, a...), b...)
}

func (s *accumulators) putSketch(c cell, i int, cut uint8, all []bucket) {
	b := s.resizeSketch(c, i, sketchHead+len(all)*bucketBytes)
	b[0] = cut
	for at, x := range all {
		b.set(at, x.number, x.count)
	}
}

func (s *accumulators) mergeQuantiles(i int, dst, src cell) {
	at := s.aggs[i].at
	n := binary.LittleEndian.Uint64(src.entry[at:])
	if n == 0 {
		return
	}
	from, _ := src.side.sketches.GetSub(src.key, s.subkey(i))
	b := buckets(from)
	s.more = s.more[:0]
	for at := range b.len() {
		s.more = append(s.more, bucket{b.number(at), b.count(at)})
	}
	to, ok := dst.side.sketches.GetSub(dst.key, s.subkey(i))
	if !ok {
		to = noBuckets
	}
	binary.LittleEndian.PutUint64(dst.entry[at:], binary.LittleEndian.Uint64(dst.entry[at:])+n)
	cut := b.cut()
	if s.fault.unaligned {
		cut = max(cut, buckets(to).cut())
	}
	cut, all := s.sum(buckets(to), cut, s.more)
	s.putSketch(dst, i, cut, all)
}

// quantile interpolates between the two numbers around rank p (n - 1) / 100, which is what "continuous percentile" means.
func (s *accumulators) quantile(owner int, c cell, acc []byte, p float64) pipeline.Value {
	n := binary.LittleEndian.Uint64(acc)
	if n == 0 {
		return pipeline.Value{}
	}
	val, _ := c.side.sketches.GetSub(c.key, s.subkey(owner))
	b := buckets(val)
	rank := float64(p*float64(n-1)) / 100
	below := math.Floor(rank)
	low, high := b.at(uint64(below)), b.at(min(uint64(below)+1, n-1))
	share := rank - below
	if low == high || share == 0 {
		return pipeline.FloatValue(low)
	}
	return pipeline.FloatValue(float64(low*(1-share)) + float64(high*share))
}

// at gives the number of a rank, 0 for the smallest.
func (b buckets) at(rank uint64) float64 {
	for i := range b.len() {
		n := b.count(i)
		if rank < n {
			return middle(b.number(i), b.cut())
		}
		rank -= n
	}
	panic("BUG: a quantile sketch has fewer numbers than were added")
}
