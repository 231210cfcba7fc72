package exec

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Poison names a record at which a step's operator panics, or a decoder of the source of which Step is "$source/NAME".
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
	what := "operator"
	if strings.HasPrefix(e.Step, sourceUID("")) {
		what = "decoder"
	}
	return fmt.Sprintf("step %s: %s panic at position %d: %v\n%s", e.Step, what, e.Position, e.Cause, e.Stack)
}

// reasonPoison is the reason of the dead letter. Its detail says nothing of the panic: dead letters are the same in every replay.
const (
	reasonPoison        = "poison"
	detailPoisonDecoder = "the source's decoder failed at this message whenever it was tried, and goes on without it"
	detailPoison        = "the step's operator failed at this record whenever it was tried, and goes on without it"
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

func sourceUID(name string) string { return "$source/" + name }

// skip has the source go on without records at which a decoder panics.
func (s *source) skip(all []Poison) {
	positions := skipsOf(all, sourceUID(s.plan.Name))
	for _, l := range s.lanes {
		l.skips = positions
	}
}

// failed makes the error of a panic while a lane worked.
func (s *source) failed(cause any, stack []byte, l *decodeLane) error {
	if backing, ok := cause.(*state.BackingError); ok { // the store beneath the clocks failed: no record is to blame
		l.at = nil
		return fmt.Errorf("source %s, position %d: %w", s.plan.Name, s.out.At.Pos, backing)
	}
	if l.at == nil {
		return fmt.Errorf("source %s: panic: %v\n%s", s.plan.Name, cause, stack)
	}
	at := l.at.Pos
	l.at = nil
	return &PoisonError{Poison: Poison{Step: sourceUID(s.plan.Name), Position: at}, Cause: cause, Stack: stack}
}
