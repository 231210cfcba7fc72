package window

import (
	"encoding/binary"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/counter"
)

// increase and rate read a counter in the order of time, so that a sample which comes late never looks like a restart. They keep
// what the counter rose by between the samples, as a sum, and the earliest and the latest sample. A sample earlier than the
// earliest is put before it. One that lies between the two is left out: the samples around it are not kept, and a counter that
// only rises does not need it. (Where one matters, step sort puts rows in order first.)
//
//	0  sum of the steps (sum.go)
//	41 earliest sample, 58 latest: kind (null until there was one), number, time in ms
const counterBytes = sumBytes + 2*sampleBytes

const (
	sampleBytes = 17
	earliestAt  = sumBytes
	latestAt    = sumBytes + sampleBytes
)

type sample struct {
	value pipeline.Value
	time  int64
}

func sampleAt(acc []byte, at int) sample {
	b := acc[at : at+sampleBytes]
	return sample{
		value: pipeline.Value{Kind: pipeline.Kind(b[0]), Num: binary.LittleEndian.Uint64(b[1:])},
		time:  int64(binary.LittleEndian.Uint64(b[9:])),
	}
}

func putSample(acc []byte, at int, x sample) {
	b := acc[at : at+sampleBytes]
	b[0] = byte(x.value.Kind)
	binary.LittleEndian.PutUint64(b[1:], x.value.Num)
	binary.LittleEndian.PutUint64(b[9:], uint64(x.time))
}

func (s *accumulators) addSample(acc []byte, x sample) {
	earliest, latest := sampleAt(acc, earliestAt), sampleAt(acc, latestAt)
	switch {
	case earliest.value.IsNull():
		putSample(acc, earliestAt, x)
		putSample(acc, latestAt, x)
	case x.time >= latest.time:
		s.addStep(acc, latest.value, x.value)
		putSample(acc, latestAt, x)
	case x.time < earliest.time:
		s.addStep(acc, x.value, earliest.value)
		putSample(acc, earliestAt, x)
	}
}

func (s *accumulators) addStep(acc []byte, prev, cur pipeline.Value) {
	step, what := counter.Rule{}.Step(prev, cur)
	if s.fault.resetBlind && what == counter.Reset {
		step = pipeline.IntValue(cur.Int() - prev.Int())
	}
	addToSum(acc, step)
}

// mergeSamples puts one run of samples before or behind the other. Runs that overlap in time, which windows by arrival may have, are not
// taken apart: of the one that begins later only what reaches beyond the other counts.
func (s *accumulators) mergeSamples(dst, src []byte) {
	if sampleAt(src, earliestAt).value.IsNull() {
		return
	}
	if sampleAt(dst, earliestAt).value.IsNull() {
		copy(dst[:counterBytes], src)
		return
	}
	begin, end := sampleAt(src, earliestAt), sampleAt(src, latestAt)
	switch {
	case begin.time >= sampleAt(dst, latestAt).time:
		s.addStep(dst, sampleAt(dst, latestAt).value, begin.value)
		mergeSum(dst, src)
		putSample(dst, latestAt, end)
	case end.time <= sampleAt(dst, earliestAt).time:
		s.addStep(dst, end.value, sampleAt(dst, earliestAt).value)
		mergeSum(dst, src)
		putSample(dst, earliestAt, begin)
	default:
		s.addSample(dst, begin)
		s.addSample(dst, end)
	}
}

// rate is the increase per second between the earliest and the latest sample; null when no time lies between them.
func rate(acc []byte) pipeline.Value {
	ms := sampleAt(acc, latestAt).time - sampleAt(acc, earliestAt).time
	if ms <= 0 {
		return pipeline.Value{}
	}
	return pipeline.FloatValue(floatTotal(acc) / float64(ms) * 1000)
}
