package savepoints

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// declared notes the tables that an operator declares, by name.
type declared map[string]state.Spec

// Table implements pipeline.Tables.
func (d declared) Table(spec state.Spec) (*state.Table, error) {
	d[spec.Name] = spec
	return state.New(spec), nil
}

// migration tells what becomes of a step's tables whose bytes are of another version than this build writes: Migrate when the operator reads that version,
// Incompatible when it does not, "" when all are of this one.
func migration(s *plan.Step, tables []savepoint.Table) (fate Fate, reason string) {
	var were []savepoint.Table
	for _, t := range tables {
		if !strings.HasPrefix(t.Name, "$") { // the engine's own
			were = append(were, t)
		}
	}
	if len(were) == 0 {
		return "", ""
	}
	op, now := s.New(), declared{}
	if err := op.Open(now); err != nil {
		return Incompatible, fmt.Sprintf("it cannot be opened: %v", err)
	}
	var moves []string
	for _, t := range were {
		spec, ok := now[t.Name]
		switch {
		case !ok || t.Type == spec.Type && t.Version == uint64(spec.Version):
			continue
		case t.Type != spec.Type:
			return Incompatible, fmt.Sprintf("its table %s was %s and is %s", t.Name, t.Type, spec.Type)
		case t.Version > uint64(spec.Version):
			return Incompatible, pipeline.Newer(nil, "its table "+t.Name, t.Version, uint64(spec.Version)).Error()
		}
		e, ok := op.(pipeline.Evolving)
		if !ok || e.Older(t.Name, uint16(t.Version)) == nil {
			return Incompatible, fmt.Sprintf("its table %s is of version %d, which this build does not read any more (it writes %d)", t.Name, t.Version, spec.Version)
		}
		moves = append(moves, fmt.Sprintf("table %s goes from version %d to %d", t.Name, t.Version, spec.Version))
	}
	if moves == nil {
		return "", ""
	}
	return Migrate, strings.Join(moves, "; ")
}
