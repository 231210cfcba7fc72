package central

import "math"

// tries are how an upload fares, for the pace of its repeats. Run owns it.
type tries struct {
	fails  int      // of the same step, or of those that lead to it
	failed progress // the step that failed
	rest   int      // rounds to be left out, while others get on
}

// restMax bounds the rounds that a pipeline is left out that fails while others get on: each of those has a request at least.
const restMax = 256

// place orders steps: what leads to an object comes before it, and the objects before what follows them.
func (p progress) place() int {
	switch p.phase {
	case phaseLook, phasePut, phaseCheck:
		return p.at
	case phaseClaim, phaseMove, phaseConfirm, phaseNote:
		return math.MaxInt
	}
	return -1
}

// fail counts a step that failed.
func (t *tries) fail(at progress) {
	t.fails++
	t.failed = at
}

// succeed says whether the upload got on by a step. One that only leads back to a step that failed is none: a store that answers reads and refuses writes would
// be asked without an end.
func (t *tries) succeed(at progress) bool {
	if t.fails == 0 {
		return true
	}
	if at != t.failed && at.place() <= t.failed.place() && at.phase != phaseNote && at.phase != phaseDrop {
		return false
	}
	*t = tries{}
	return true
}

// leaveOut lets the pipeline rest while others get on.
func (t *tries) leaveOut() { t.rest = min(1<<min(t.fails, 8), restMax) }
