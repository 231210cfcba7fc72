// Package counter is the one rule by which weir reads a counter that only rises, until its device restarts or its register wraps.
// The step `counter` and the aggregates increase and rate follow it.
package counter

import (
	"math"

	"github.com/weirstream/weir/pipeline"
)

// Rule is how a counter may fall. The zero Rule knows restarts only.
type Rule struct {
	// Last is the largest value before a counter of fixed width begins again at 0: 65535 for 16 bits. 0: it does not wrap.
	Last uint64
	// StepMax is the largest increase over the wrap that is taken for one; a larger one is a reset.
	StepMax uint64
}

// What tells how a step was read.
type What uint8

const (
	Rise  What = iota // cur >= prev: cur - prev
	Wrap              // Last + 1 - prev + cur <= StepMax: that
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

// Step gives the increase from prev to cur, both Valid: exact for two integers, else a float, which never wraps. It is never
// negative and always fits.
func (r Rule) Step(prev, cur pipeline.Value) (pipeline.Value, What) {
	if prev.Kind == pipeline.Float || cur.Kind == pipeline.Float {
		return r.floatStep(prev, cur)
	}
	p, c := prev.Uint(), cur.Uint()
	if c >= p {
		return pipeline.UintValue(c - p), Rise
	}
	if p <= r.Last { // hence c is below Last as well, and the step less one does not overflow
		if step := r.Last - p + c; step < r.StepMax {
			return pipeline.UintValue(step + 1), Wrap
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
	return pipeline.FloatValue(math.Max(c, 0)), Reset
}
