package agent

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// openState opens what the backend pebble needs, empty: the engine fills it from the checkpoint. It gives how tables are made, nil for the backend
// memory.
func (a *attempt) openState(dir string) (func(uid string, spec state.Spec) *state.Table, error) {
	if a.spec.State.Backend != config.BackendPebble {
		return nil, nil
	}
	db, pool, err := pebblekv.OpenPool(pebblekv.Options{
		Dir: filepath.Join(dir, "state"), MemoryBytes: a.spec.State.Memory,
		Background: func(err error) {
			a.log.Error("state: a write to flash failed and is tried again; the pipeline waits when memory is full", "error", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	a.state = db
	return func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }, nil
}

func (a *attempt) stateStatus() *api.StateStatus {
	if a.state == nil {
		return nil
	}
	m := a.state.Metrics()
	return &api.StateStatus{Disk: m.Disk, Written: m.Written, Memory: m.Memory}
}
