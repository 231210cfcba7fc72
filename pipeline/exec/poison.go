package exec

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Poison names a record at which a step's operator panics.
type Poison struct {
	Step     string
	Position pipeline.Position
}

// PoisonError is the failure of a region by a panic at a row. A panic in a timer is none: no record can be blamed for it.
type PoisonError struct {
	Poison
	Cause any
	Stack []byte
}

func (e *PoisonError) Error() string {
	return fmt.Sprintf("step %s: operator panic at position %d: %v\n%s", e.Step, e.Position, e.Cause, e.Stack)
}

// reasonPoison is the reason of the dead letter. Its detail says nothing of the panic: dead letters are the same in every replay.
const (
	reasonPoison = "poison"
	detailPoison = "the step's operator failed at this record whenever it was tried, and goes on without it"
)

// skipsOf picks the positions at which a step does not try.
func skipsOf(all []Poison, step string) (positions []pipeline.Position) {
	for _, p := range all {
		if p.Step == step {
			positions = append(positions, p.Position)
		}
	}
	slices.Sort(positions)
	return positions
}

// process hands a row to the operator, or refuses it when the step is to go on without its record.
func (s *step) process(in int, r *pipeline.Row) {
	if len(s.skips) > 0 && r.Phase == pipeline.During {
		if _, skip := slices.BinarySearch(s.skips, r.Pos); skip {
			s.out.Refuse(reasonPoison, detailPoison, r)
			return
		}
	}
	s.row = r
	s.op.Process(in, r, s.out)
	s.row = nil
}

// failed makes the error of a panic.
func (s *step) failed(cause any, stack []byte) error {
	if backing, ok := cause.(*state.BackingError); ok { // the store beneath the state failed: no record is to blame
		s.row = nil
		return fmt.Errorf("step %s, position %d: %w", s.uid, s.out.At.Pos, backing)
	}
	if s.row == nil || s.row.Phase != pipeline.During {
		return fmt.Errorf("step %s: operator panic at position %d: %v\n%s", s.uid, s.out.At.Pos, cause, stack)
	}
	at := s.row.Pos
	s.row = nil
	return &PoisonError{Poison: Poison{Step: s.uid, Position: at}, Cause: cause, Stack: stack}
}
