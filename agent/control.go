package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/snapshot"
)

func (a *Agent) runningOf(name string) (*attempt, error) {
	s, err := a.supervisorOf(name)
	if err != nil {
		return nil, err
	}
	if at := s.running(); at != nil {
		return at, nil
	}
	return nil, fmt.Errorf("pipeline %s does not run now; see weir status", name)
}

// TriggerCheckpoint makes a checkpoint now, in each region of the pipeline; they are durable on return. It tells of the one with the lowest position.
func (a *Agent) TriggerCheckpoint(ctx context.Context, pipeline string) (lowest api.CheckpointInfo, err error) {
	list, err := a.supervisorsOf(pipeline)
	if err != nil {
		return lowest, err
	}
	for i, s := range list {
		at, err := a.runningOf(s.name)
		if err != nil {
			return lowest, err
		}
		c, err := at.coordinator.Trigger(ctx)
		if err != nil {
			return lowest, err
		}
		if info := checkpointInfo(c.Manifest); i == 0 || info.Position < lowest.Position {
			lowest = info
		}
	}
	return lowest, nil
}

// Checkpoints lists the retained ones, oldest first.
func (a *Agent) Checkpoints(pipeline string) (list []api.CheckpointInfo, err error) {
	at, err := a.runningOf(pipeline)
	if err != nil {
		return nil, err
	}
	l, err := at.store.List(context.Background())
	if err != nil {
		return nil, err
	}
	for i := len(l.Manifests) - 1; i >= 0; i-- {
		list = append(list, checkpointInfo(l.Manifests[i]))
	}
	return list, nil
}

func checkpointInfo(m *snapshot.Manifest) api.CheckpointInfo {
	bytes, _ := m.DeltaBytes()
	return api.CheckpointInfo{ID: m.ID, Position: uint64(m.Position), Time: time.UnixMilli(m.WallMs), Bytes: int64(bytes + m.Base.Bytes), Kind: "checkpoint"}
}

// StopPipeline makes a last checkpoint and stops; the pipeline holds its place in the journal (RULES 20).
func (a *Agent) StopPipeline(ctx context.Context, pipeline string) error {
	return a.command(ctx, pipeline, true)
}

// StartPipeline starts a stopped or failed pipeline.
func (a *Agent) StartPipeline(ctx context.Context, pipeline string) error {
	return a.command(ctx, pipeline, false)
}

// RestartPipeline stops and starts.
func (a *Agent) RestartPipeline(ctx context.Context, pipeline string) error {
	if err := a.StopPipeline(ctx, pipeline); err != nil {
		return err
	}
	return a.StartPipeline(ctx, pipeline)
}

func (a *Agent) command(ctx context.Context, pipeline string, stop bool) error {
	if err := a.upgrader.masters(); err != nil {
		return err
	}
	list, err := a.supervisorsOf(pipeline)
	if err != nil {
		return err
	}
	if err := a.fence.err(); err != nil && !stop {
		return err
	}
	for _, s := range list {
		if err := s.ask(ctx, command{stop: stop}); err != nil {
			return err
		}
	}
	return nil
}
