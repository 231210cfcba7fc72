package exec

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// inOne gives the tables of a checkpoint in one reading, as those of ../../snapshot do.
type inOne struct{ *checkpoint }

func (w inOne) Every(table func(uid, name string, written state.Spec) (func(key, sub, val []byte) error, error)) error {
	for id, spec := range w.specs {
		uid, name, _ := strings.Cut(id, "/")
		load, err := table(uid, name, spec)
		if err != nil {
			return err
		}
		for k, v := range w.entries[id] {
			if err := load([]byte(k[0]), []byte(k[1]), []byte(v)); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestOlderStateIsWrittenAnew: a checkpoint takes nothing over from one whose table had another version. So all that was read under the lower one must be in the next,
// also what never changes again: the clock of a key that fell silent.
func TestOlderStateIsWrittenAnew(t *testing.T) {
	for _, c := range []struct {
		version uint16
		dirty   int
	}{{1, 2}, {2, 0}} {
		for name, wrap := range map[string]func(*checkpoint) pipeline.StateSource{
			"in one reading": func(c *checkpoint) pipeline.StateSource { return inOne{c} },
			"by table":       func(c *checkpoint) pipeline.StateSource { return c },
		} {
			s := &source{}
			s.table = state.New(s.spec())
			spec := s.spec()
			spec.Version = c.version
			from := &checkpoint{specs: map[string]state.Spec{"s/source": spec}, entries: map[string]map[[2]string]string{
				"s/source": {{"", ""}: strings.Repeat("x", sourceStateBytesOld), {"ka", ""}: strings.Repeat("y", 16)},
			}}
			err := loadAll(wrap(from), []tableLoad{{uid: "s", want: s.table.Spec(), load: s.table.Load, older: s.older}})
			if err != nil {
				t.Fatal(err)
			}
			f := s.table.Freeze()
			if s.table.Len() != 2 || f.Len() != c.dirty {
				t.Errorf("%s, version %d: %d entries, %d in the next checkpoint, want 2, %d", name, c.version, s.table.Len(), f.Len(), c.dirty)
			}
			f.Commit()
		}
	}
}

// TestStateOfANewerBuildIsToldFromOtherState.
func TestStateOfANewerBuildIsToldFromOtherState(t *testing.T) {
	want := state.Spec{Name: "t", Kind: state.Value, Type: "ops.x", Version: 2}
	load := tableLoad{uid: "u", want: want, load: func(_, _, _ []byte) error { t.Error("loaded"); return nil }}
	for name, change := range map[string]func(s *state.Spec){
		"newer":  func(s *state.Spec) { s.Version = 3 },
		"older":  func(s *state.Spec) { s.Version = 1 },
		"type":   func(s *state.Spec) { s.Type, s.Version = "ops.y", 3 },
		"kind":   func(s *state.Spec) { s.Kind = state.Map },
		"timely": func(s *state.Spec) { s.TTL = 5 },
	} {
		written := want
		change(&written)
		from := &checkpoint{specs: map[string]state.Spec{"u/t": written}, entries: map[string]map[[2]string]string{"u/t": {{"k", ""}: "v"}}}
		for _, source := range []pipeline.StateSource{from, inOne{from}} {
			err := loadAll(source, []tableLoad{load})
			var newer *pipeline.NewerError
			if !errors.Is(err, ErrState) || errors.As(err, &newer) != (name == "newer") {
				t.Errorf("%s: %v", name, err)
			}
			if name == "newer" && !strings.Contains(err.Error(), "written by a newer weir (format 3, this build reads up to 2): state of type ops.x, step u, table t") {
				t.Errorf("%v", err)
			}
		}
	}
}
