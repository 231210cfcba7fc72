package agent

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// hotShare of state.memory is for the hot entries of the tables; the rest is the store's.
const hotShare = 4

// openState opens what the backend pebble needs, empty: the engine fills it from the checkpoint. It gives how tables are made, nil for the backend
// memory.
func (a *attempt) openState(dir string) (func(uid string, spec state.Spec) *state.Table, error) {
	if a.spec.State.Backend != config.BackendPebble {
		return nil, nil
	}
	memory := a.spec.State.Memory
	db, err := pebblekv.Open(pebblekv.Options{
		Dir: filepath.Join(dir, "state"), MemoryBytes: memory - memory/hotShare,
		Background: func(err error) {
			a.log.Error("state: a write to flash failed and is tried again; the pipeline waits when memory is full", "error", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	a.state = db
	pool := state.NewPool(db, memory/hotShare)
	return func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }, nil
}

func (a *attempt) stateStatus() *api.StateStatus {
	if a.state == nil {
		return nil
	}
	m := a.state.Metrics()
	return &api.StateStatus{Disk: m.Disk, Written: m.Written, Memory: m.Memory}
}
