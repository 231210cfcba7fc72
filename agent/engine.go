package agent

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot"
)

// load makes the engine and reads the state into it.
func (a *attempt) load(ctx context.Context, m *snapshot.Manifest, source pipeline.StateSource, start pipeline.Position) (*exec.Pipeline, error) {
	if _, whole := source.(pipeline.WholeSource); !whole || m == nil {
		return a.newEngine(ctx, source, start)
	}
	entries := m.Base.Entries
	for _, f := range m.Frames {
		entries += f.Entries
	}
	told, end := a.work("restoring checkpoint "+strconv.FormatUint(m.ID, 10), "entries", entries)
	defer end()
	return a.newEngine(ctx, &counted{StateSource: source, told: told}, start)
}

func (a *attempt) newEngine(ctx context.Context, source pipeline.StateSource, start pipeline.Position) (*exec.Pipeline, error) {
	tables, err := a.openState(ctx, filepath.Join(a.agent.pipelinesDir(), a.id.String()))
	if err != nil {
		return nil, err
	}
	loss, err := a.readLoss()
	if err != nil {
		return nil, err
	}
	return exec.New(exec.Options{
		Graph: a.graph, Tables: tables, Restore: source, Start: start, Generation: a.generation,
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			open := a.agent.journal.Reader
			if a.spec.AtLeastOnce { // sealer keeps checkpoints behind the sync
				open = a.agent.journal.EagerReader
			}
			r, err := open(after + 1)
			if err != nil {
				return nil, err
			}
			return &ownReader{BlockReader: r, id: a.id.String()}, nil
		},
		Sink: a.openSink,
		Deliver: func(s pipeline.TaskSnapshot) {
			a.coordinator.Deliver(s)
		},
		Handled:   func(n int) { a.coordinator.Records(n) },
		Published: a.agent.timersChanged,
		Loss:      loss,
		Skip:      a.skip,
		Slabs:     a.agent.slabs,
		Ask:       a.agent.wished,
		Logger:    a.log,
	})
}

func (a *attempt) newCoordinator(ctx context.Context, r *snapshot.Restored, initial snapshot.Initial) (err error) {
	inc := a.agent.incarnation()
	a.coordinator, err = snapshot.NewCoordinator(snapshot.Options{
		Config: a.checkpointConfig(),
		Identity: snapshot.Identity{
			Pipeline: a.id, PlanHash: a.graph.Hash, Generation: a.generation, Behaviours: behaviours(a.graph),
			Incarnation: snapshot.Incarnation{Major: inc.Major, Minor: inc.Minor},
		},
		Store: a.store, Engine: a.engine, Outbox: sealer{Outbox: a.outbox, journal: a.agent.journal}, Journal: a.agent.journal, Tasks: a.engine.Tasks(),
		Pressed: func() bool { return a.agent.journal.Stats().Log.Full && !a.blocked() },
		Current: r.Manifest, KeepFrom: a.keepFrom(), Logger: a.log, Wall: func() (int64, bool) { s := a.agent.clock.Stamp(); return s.Wall, s.Trusted },
	})
	if err != nil {
		return err
	}
	a.coordinator.Stretch(a.agent.flash.LeastInterval())
	if r.Manifest == nil {
		if _, err = a.coordinator.CommitInitial(ctx, initial); err != nil {
			return err
		}
		a.agent.allowEmpty.used(a.spec.Name.Value)
	}
	return a.begin()
}

func behaviours(g *plan.Graph) (list []snapshot.Behaviour) {
	for _, s := range g.Steps {
		list = append(list, snapshot.Behaviour{UID: s.UID, Version: uint64(s.Behaviour)})
	}
	return list
}
