package exec

import (
	"errors"
	"fmt"
)

// errMisaligned breaks the batch contract: every input carries the same numbers and barriers in the same order.
var errMisaligned = errors.New("BUG: inputs of a task are misaligned")

// align checks that the envelopes taken from all inputs of a task belong together: the same batch, or the same barrier.
// Because every producer emits exactly one batch per input batch, taking one envelope of each input is the alignment
// (Carbone et al. 2015, §4.2): the channel of the faster input holds what came behind its barrier.
func align(taken []envelope) error {
	first := taken[0]
	for _, e := range taken[1:] {
		switch {
		case (e.barrier == nil) != (first.barrier == nil):
			return fmt.Errorf("%w: a barrier meets a batch", errMisaligned)
		case e.barrier != nil && *e.barrier != *first.barrier:
			return fmt.Errorf("%w: barrier %d meets barrier %d", errMisaligned, e.barrier.ID, first.barrier.ID)
		case e.barrier == nil && e.input.Number != first.input.Number:
			return fmt.Errorf("%w: batch %d meets batch %d", errMisaligned, e.input.Number, first.input.Number)
		}
	}
	return nil
}
