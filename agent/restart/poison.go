package restart

import (
	"errors"

	"github.com/weirstream/weir/pipeline/exec"
)

// skipsMax bounds the records that a pipeline goes on without: an operator that fails at everything fails the pipeline.
const skipsMax = 1000

// Poisons counts at which records a pipeline's steps fail. It is not kept over a restart of the agent: the same records then fail again,
// as often as is tolerated, before the pipeline goes on without them. The results are the same, since a row with a failure emits nothing, and
// everything before it comes again.
type Poisons struct {
	Tolerate int // tries of a record before it becomes a dead letter; 0: the pipeline fails with it for ever
	tries    map[exec.Poison]int
	Skip     []exec.Poison // what it goes on without
}

// Failed counts a failure. It tells how often this record failed (0: the failure has no record), and whether the pipeline goes on without it.
func (p *Poisons) Failed(err error) (tries int, skipped bool, at exec.Poison) {
	var poison *exec.PoisonError
	if p.Tolerate == 0 || !errors.As(err, &poison) {
		return 0, false, at
	}
	if p.tries == nil {
		p.tries = map[exec.Poison]int{}
	}
	p.tries[poison.Poison]++
	tries = p.tries[poison.Poison]
	if tries < p.Tolerate || len(p.Skip) >= skipsMax {
		return tries, false, poison.Poison
	}
	delete(p.tries, poison.Poison)
	p.Skip = append(p.Skip, poison.Poison)
	return tries, true, poison.Poison
}
