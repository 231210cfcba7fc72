package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/snapshot"
)

// supervisorOf finds a pipeline by name.
func (a *Agent) supervisorOf(name string) (*supervisor, error) {
	for _, s := range a.supervisors {
		if s.name == name {
			return s, nil
		}
	}
	return nil, fmt.Errorf("%w: %q", api.ErrNotFound, name)
}

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

// TriggerCheckpoint makes a checkpoint now; it is durable on return.
func (a *Agent) TriggerCheckpoint(ctx context.Context, pipeline string) (api.CheckpointInfo, error) {
	at, err := a.runningOf(pipeline)
	if err != nil {
		return api.CheckpointInfo{}, err
	}
	c, err := at.coordinator.Trigger(ctx)
	if err != nil {
		return api.CheckpointInfo{}, err
	}
	return checkpointInfo(c.Manifest), nil
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
	s, err := a.supervisorOf(pipeline)
	if err != nil {
		return err
	}
	return s.ask(ctx, command{stop: stop})
}

// DeadLetters calls f for the dead letters of a pipeline behind number after, oldest first.
func (a *Agent) DeadLetters(pipeline string, after uint64, limit int, f func(seq uint64, letter []byte) error) error {
	at, err := a.runningOf(pipeline)
	if err != nil {
		return err
	}
	return at.deadLetters(after, limit, f)
}
