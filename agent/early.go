package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
)

// highestCheckpoint is the highest position that a checkpoint on this device names, or the order to take over another device's state. The journal never gives out a position up to it again:
// its newest frame cannot prove itself when it rots, and a position with two meanings would hide the loss from every
// pipeline that stood behind it. The stores are opened for it before the journal and handed to the first attempts, so
// that it costs no second recovery. A store that cannot be opened says nothing here; its pipeline reports it.
func (a *Agent) highestCheckpoint(runs []run) (high pipeline.Position) {
	ctx := context.Background()
	for _, p := range runs {
		name := p.Name.Value
		id, err := statedir.ParseUUID(a.registry.UUID(name))
		if err != nil {
			continue
		}
		dir := filepath.Join(a.pipelinesDir(), id.String())
		if _, err := os.Stat(dir); err != nil {
			continue // a new pipeline
		}
		if o, _, err := restore.Ordered(a.fs, dir); err == nil && o.Takeover { // the journal that the takeover made lies behind it; one that was lost since, and begins anew, does not
			high = max(high, pipeline.Position(o.Behind))
		}
		if a.elsewhere(p.Pipeline, dir) != nil {
			continue
		}
		store, err := a.openStore(ctx, p.Pipeline, id, dir, a.log.With("pipeline", name))
		if err != nil {
			continue
		}
		a.early[name] = store
		list, err := store.List(ctx)
		if err != nil {
			continue
		}
		for _, m := range list.Manifests {
			if m.Pipeline == id {
				high = max(high, m.Position)
			}
		}
	}
	return high
}

// takeEarly hands a store over, once; nil when there is none.
func (a *Agent) takeEarly(name string) snapshot.Store {
	a.earlyMu.Lock()
	defer a.earlyMu.Unlock()
	s := a.early[name]
	delete(a.early, name)
	return s
}

// closeEarly closes what no attempt took.
func (a *Agent) closeEarly() error {
	a.earlyMu.Lock()
	defer a.earlyMu.Unlock()
	var errs []error
	for name, s := range a.early {
		if err := s.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close checkpoints of %s: %w", name, err))
		}
		delete(a.early, name)
	}
	return errors.Join(errs...)
}
