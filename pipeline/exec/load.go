package exec

import (
	"errors"
	"fmt"
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// tableLoad is a table that a checkpoint fills.
type tableLoad struct {
	uid  string
	want state.Spec
	load func(key, sub, val []byte) error
	// older gives what loads entries of a lower version, such that they are written anew: entries that a checkpoint holds under another version end
	// with it. nil, or giving nil: the version is not read.
	older func(version uint16) func(key, sub, val []byte) error
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
		return l.loader(written)
	})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// errSeen ends a reading that asks for a table's spec alone.
var errSeen = errors.New("seen")

// from reads one table.
func (l *tableLoad) from(from pipeline.StateSource) error {
	written, found, err := from.Entries(l.uid, l.want.Name, func(_, _, _ []byte) error { return errSeen })
	if err == nil || !errors.Is(err, errSeen) { // there are none, or they cannot be read
		return l.failed(err)
	}
	if !found {
		return nil
	}
	load, err := l.loader(written)
	if err == nil {
		_, _, err = from.Entries(l.uid, l.want.Name, load)
	}
	return l.failed(err)
}

func (l *tableLoad) failed(err error) error {
	if err != nil {
		return fmt.Errorf("restore step %s, table %s: %w", l.uid, l.want.Name, err)
	}
	return nil
}

// loader gives what puts entries into the table that were written under a spec. Entries of another kind, and of a version that is not read, are
// refused. A table with TTL carries the time of the last write in each value, one without does not.
func (l *tableLoad) loader(written state.Spec) (func(key, sub, val []byte) error, error) {
	load := l.load
	switch {
	case written.Kind != l.want.Kind || written.Type != l.want.Type || (written.TTL > 0) != (l.want.TTL > 0):
		load = nil
	case written.Version > l.want.Version:
		return nil, pipeline.Newer(ErrState, fmt.Sprintf("state of type %s, step %s, table %s", l.want.Type, l.uid, l.want.Name),
			uint64(written.Version), uint64(l.want.Version))
	case written.Version < l.want.Version && l.older != nil:
		load = l.older(written.Version)
	case written.Version < l.want.Version:
		load = nil
	}
	if load == nil {
		return nil, fmt.Errorf("%w: step %s, table %s holds %s version %d, this plan needs %s version %d",
			ErrState, l.uid, l.want.Name, written.Type, written.Version, l.want.Type, l.want.Version)
	}
	return func(key, sub, val []byte) error {
		if err := load(key, sub, val); err != nil {
			return fmt.Errorf("step %s, table %s: %w", l.uid, l.want.Name, err)
		}
		return nil
	}, nil
}
