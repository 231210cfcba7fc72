package exec

import (
	"fmt"
	"sort"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Poison names a record at which a step's operator panics, or a decoder of the source of which Step is "$source/NAME". A record may give a step many
// rows: Row tells which of them, and what came before it stands (poisonrow.go).
type Poison struct {
	Step     string
	Position pipeline.Position
	Row      int // from 0
	Of       int // in a keyed region with several instances Row counts the region's rows, and Of those that the step gets of one
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

// skipsOf picks the rows from which on a step does not try a record, in their order.
func skipsOf(all []Poison, step string) (skips []Poison) {
	for _, p := range all {
		if p.Step == step {
			skips = append(skips, p)
		}
	}
	sort.Slice(skips, func(i, j int) bool { return skips[i].compare(skips[j]) < 0 })
	return skips
}

// process hands a row to the operator, or refuses it when the step is to go on without its record.
func (s *step) process(in int, r *pipeline.Row) {
	if len(s.skips) > 0 && r.Phase == pipeline.During && s.skipped() {
		s.out.Refuse(reasonPoison, detailPoison, r)
		return
	}
	s.row = r
	s.op.Process(in, r, s.out)
	s.row = nil
}

// failed makes the error of a panic.
func (s *step) failed(cause any, stack []byte) error {
	if behind, ok := cause.(spilled); ok { // a step behind this one failed, or a sink
		s.row = nil
		return behind.err
	}
	if backing, ok := cause.(*state.BackingError); ok { // the store beneath the state failed: no record is to blame
		s.row = nil
		return fmt.Errorf("step %s, position %d: %w", s.uid, s.out.At.Pos, backing)
	}
	if s.row == nil || s.row.Phase != pipeline.During {
		return fmt.Errorf("step %s: operator panic at position %d: %v\n%s", s.uid, s.out.At.Pos, cause, stack)
	}
	at := s.row.Pos
	s.row = nil
	return &PoisonError{Poison: Poison{Step: s.uid, Position: at, Row: s.nth.row, Of: s.nth.of}, Cause: cause, Stack: stack}
}

func sourceUID(name string) string { return "$source/" + name }

// skip has the source go on without records at which a decoder panics.
func (s *source) skip(all []Poison) {
	var positions []pipeline.Position // of whole messages: none of their records has gone on when one fails
	for _, p := range skipsOf(all, sourceUID(s.plan.Name)) {
		positions = append(positions, p.Position)
	}
	for _, l := range s.lanes {
		l.skips = positions
	}
}

// failed makes the error of a panic while the lane worked.
func (l *decodeLane) failed(cause any, stack []byte) error {
	if backing, ok := cause.(*state.BackingError); ok { // the store beneath the clocks failed: no record is to blame
		l.at = nil
		return fmt.Errorf("source %s: %w", l.plan.Name, backing)
	}
	if l.at == nil {
		return fmt.Errorf("source %s: panic: %v\n%s", l.plan.Name, cause, stack)
	}
	at := l.at.Pos
	l.at = nil
	return &PoisonError{Poison: Poison{Step: sourceUID(l.plan.Name), Position: at}, Cause: cause, Stack: stack}
}
