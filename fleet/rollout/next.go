package rollout

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/fleet/document"
)

// Next is the document that carries out a verdict, nil when there is nothing to publish. nowMs is the store's clock, by which the wave is measured; createdMs the publisher's, which gateways
// take for the time. The caller signs it and publishes it in the place of r.
func Next(r *document.Rollout, v Verdict, nowMs, createdMs int64) *document.Rollout {
	return next(r, v, nowMs, createdMs, planted{})
}

func next(r *document.Rollout, v Verdict, nowMs, createdMs int64, fault planted) *document.Rollout {
	switch {
	case v.Halt && !fault.haltLost:
		return Halt(r, v.Why, createdMs)
	case v.Next > r.Wave && v.Next < len(r.Waves):
		n := follow(r, createdMs)
		n.Wave, n.Permille = v.Next, r.Waves[v.Next].Permille
		if !fault.waveClock {
			n.WaveMs = nowMs
		}
		return n
	}
	return nil
}

// Halt is the document that stops r: nobody begins any more, who has not switched goes back to work.
func Halt(r *document.Rollout, why string, createdMs int64) *document.Rollout {
	n := follow(r, createdMs)
	n.Halted, n.WhyHalt = true, document.Clean(why, 1024)
	return n
}

// Resume is the document that goes on with r where it was halted. The wave begins anew: its soak counts from nowMs.
func Resume(r *document.Rollout, nowMs, createdMs int64) (*document.Rollout, error) {
	if !r.Halted {
		return nil, errors.New("the roll-out is not halted")
	}
	n := follow(r, createdMs)
	n.Halted, n.WhyHalt, n.WaveMs = false, "", nowMs
	return n, nil
}

// Skip is the document that goes on with the next wave whatever Judge says.
func Skip(r *document.Rollout, nowMs, createdMs int64) (*document.Rollout, error) {
	if r.Wave+1 >= len(r.Waves) {
		return nil, errors.New("there is no wave behind the one that runs")
	}
	if r.Halted {
		return nil, fmt.Errorf("the roll-out is halted (%s): resume it first", r.WhyHalt)
	}
	return Next(r, Verdict{Next: r.Wave + 1}, nowMs, createdMs), nil
}

// follow is r with the next serial.
func follow(r *document.Rollout, createdMs int64) *document.Rollout {
	n := *r
	n.Serial++
	n.CreatedMs = max(createdMs, r.CreatedMs)
	return &n
}
