package exec

import (
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// tableLoad is a table that a checkpoint fills: one of a type whose versions from oldest on can be read.
type tableLoad struct {
	uid    string
	want   state.Spec
	oldest uint16
	load   func(key, sub, val []byte) error
}

// loadAll fills the tables of the whole pipeline, in one reading where the source can: the tables share the chunks that it reads. A panic over what is found
// there is an error: it fails this pipeline, not the process.
func loadAll(from pipeline.StateSource, loads []tableLoad) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic over restored state: %v\n%s", r, debug.Stack())
		}
	}()
	whole, ok := from.(pipeline.WholeSource)
	if !ok {
		for i := range loads {
			if err := loads[i].from(from); err != nil {
				return err
			}
		}
		return nil
	}
	type name struct{ uid, table string }
	wanted := map[name]*tableLoad{}
	for i := range loads {
		wanted[name{loads[i].uid, loads[i].want.Name}] = &loads[i]
	}
	err = whole.Every(func(uid, table string, written state.Spec) (func(key, sub, val []byte) error, error) {
		l := wanted[name{uid, table}]
		if l == nil {
			return nil, nil // of a step that the plan has no more
		}
		return l.named, l.fits(written)
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// from reads one table.
func (l *tableLoad) from(from pipeline.StateSource) error {
	spec, found, err := from.Entries(l.uid, l.want.Name, l.load)
	if err != nil {
		return fmt.Errorf("restore step %s, table %s: %w", l.uid, l.want.Name, err)
	}
	if found {
		return l.fits(spec)
	}
	return nil
}

func (l *tableLoad) named(key, sub, val []byte) error {
	if err := l.load(key, sub, val); err != nil {
		return fmt.Errorf("step %s, table %s: %w", l.uid, l.want.Name, err)
	}
	return nil
}

// fits refuses entries of another kind. A table with TTL carries the time of the last write in each value, one without does not.
func (l *tableLoad) fits(written state.Spec) error {
	if written.Kind != l.want.Kind || written.Type != l.want.Type || written.Version < l.oldest || written.Version > l.want.Version || (written.TTL > 0) != (l.want.TTL > 0) {
		return fmt.Errorf("%w: step %s, table %s holds %s version %d, this plan needs %s version %d",
			ErrState, l.uid, l.want.Name, written.Type, written.Version, l.want.Type, l.want.Version)
	}
	return nil
}
