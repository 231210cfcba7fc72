package replay

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// Tables are those of a replay whose state is on flash, in a directory of its own.
type Tables struct {
	dir  string
	db   *pebblekv.DB
	pool *state.Pool
}

// OpenTables makes a directory in scratch ("": the system's for temporary files) for state that may hold memory bytes in memory.
func OpenTables(scratch string, memory int64) (*Tables, error) {
	dir, err := os.MkdirTemp(scratch, "weir-replay-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the state: %w", err)
	}
	t := &Tables{dir: dir}
	if t.db, t.pool, err = pebblekv.OpenPool(pebblekv.Options{Dir: filepath.Join(dir, "state"), MemoryBytes: memory}); err != nil {
		return nil, errors.Join(fmt.Errorf("open state: %w", err), os.RemoveAll(dir))
	}
	return t, nil
}

// New is Options.Tables.
func (t *Tables) New(_ string, spec state.Spec) *state.Table { return t.pool.New(spec) }

// Written is what was written of the state to flash, in bytes.
func (t *Tables) Written() uint64 { return t.db.Metrics().Written }

// Close removes the directory. No replay may be under way.
func (t *Tables) Close() error { return errors.Join(t.db.Close(), os.RemoveAll(t.dir)) }
