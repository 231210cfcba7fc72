package agent

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline/state"
	"github.com/weirstream/weir/store/pebblekv"
)

// openState opens what the backend pebble needs, empty: the engine fills it from the checkpoint. It gives how tables are made, nil for the backend
// memory.
func (a *attempt) openState(ctx context.Context, dir string) (func(uid string, spec state.Spec) *state.Table, error) {
	if a.spec.State.Backend != config.BackendPebble {
		return nil, nil
	}
	db, pool, err := pebblekv.OpenPool(pebblekv.Options{
		Dir: filepath.Join(dir, "state"), MemoryBytes: a.spec.State.Memory,
		Waiting: a.step,
		Background: func(err error) {
			a.log.Error("state: the disk cannot be written or read, it is tried again; the pipeline waits when memory is full", "error", err)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open state: %w", err)
	}
	a.state = db
	context.AfterFunc(ctx, db.Release) // a step that waits for its disk hears of no context
	return func(_ string, spec state.Spec) *state.Table { return pool.New(spec) }, nil
}

func (a *attempt) stateStatus() *api.StateStatus {
	if a.state == nil {
		return nil
	}
	m := a.state.Metrics()
	s := &api.StateStatus{Disk: m.Disk, Written: m.Written, Memory: m.Memory}
	if err := a.state.Waits(); err != nil {
		s.Waits = err.Error()
	}
	return s
}
