// Package counter is the one rule by which weir reads a counter that only rises, until its device restarts or its register wraps.
// The step `counter` and the aggregates increase and rate follow it.
package counter

import (
	"math"

	"github.com/weirstream/weir/pipeline"
)

// Rule is how a counter may fall. The zero Rule knows restarts only.
type Rule struct {
	// Modulus is the value that the register never reaches: 65536 for 16 bits. 0: it does not wrap.
	Modulus uint64
	// StepMax: a fall that a wrap would explain by a step above it is a restart.
	StepMax uint64
}

// What tells how a step was read.
type What uint8

const (
	Rise  What = iota // cur >= prev: cur - prev
	Wrap              // modulus - prev + cur <= StepMax: that
	Reset             // any other fall: the counter began again at 0, hence cur
)

// Valid tells whether v can be a counter's value: a number, 0 or more.
func Valid(v pipeline.Value) bool {
	switch v.Kind {
	case pipeline.Int:
		return v.Int() >= 0
	case pipeline.Uint:
		return true
	case pipeline.Float:
		return v.Float() >= 0
	}
	return false
}

// Step gives the increase from prev to cur, both Valid: exact for two integers, else a float. It is never negative and
// always fits.
func (r Rule) Step(prev, cur pipeline.Value) (pipeline.Value, What) {
	if prev.Kind == pipeline.Float || cur.Kind == pipeline.Float {
		return r.floatStep(prev, cur)
	}
	p, c := prev.Uint(), cur.Uint()
	if c >= p {
		return pipeline.UintValue(c - p), Rise
	}
	if p < r.Modulus { // hence c < Modulus, and the sum does not overflow: it is below Modulus
		if step := r.Modulus - p + c; step <= r.StepMax {
			return pipeline.UintValue(step), Wrap
		}
	}
	return cur, Reset
}

func (r Rule) floatStep(prev, cur pipeline.Value) (pipeline.Value, What) {
	p, _ := prev.AsFloat()
	c, _ := cur.AsFloat()
	if c >= p {
		return pipeline.FloatValue(c - p), Rise
	}
	if m := float64(r.Modulus); p < m {
		if step := m - p + c; step <= float64(r.StepMax) {
			return pipeline.FloatValue(step), Wrap
		}
	}
	return pipeline.FloatValue(math.Max(c, 0)), Reset
}
