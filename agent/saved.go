package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

// saved is a pipeline, or a region of one, that stopped behind a savepoint S so that another plan (an apply) or another program (an upgrade) goes on from there. Both keep it in their record, and
// both can go back to it: as long as nothing that was made behind S has left, that is a cut of the outbox and a restore of S.
type saved struct {
	Name, UUID string
	Plan       string // hash of the plan that stopped, hex
	Savepoint  string // absolute; "": not made yet
	SHA256     string // of the file, hex; "": whatever it is
	Checkpoint uint64
	Position   uint64
	Ends       []pipeline.SinkMark // of the outbox at S
}

func savedOf(c apply.Change) saved {
	s := saved{Name: c.Name, UUID: c.UUID, Plan: c.Plan, Savepoint: c.Savepoint, Checkpoint: c.Checkpoint, Position: c.Position}
	for _, e := range c.Ends {
		s.Ends = append(s.Ends, pipeline.SinkMark{UID: e.UID, Seq: e.Seq})
	}
	return s
}

// stopBehind stops a running pipeline behind a savepoint of this name, and does then (nil: nothing) with it where it stands. When it fails the pipeline goes on.
func (a *Agent) stopBehind(ctx context.Context, s *supervisor, uuid, name string, then func(context.Context, *attempt) error) (left saved, err error) {
	err = s.ask(ctx, command{stop: true, before: func(at *attempt) error {
		info, err := at.lastSavepoint(ctx, api.SavepointOptions{Name: name, Pipeline: at.spec.Name.Value})
		if err != nil {
			return err
		}
		left = saved{Name: s.name, UUID: uuid, Plan: hex.EncodeToString(at.graph.Hash[:]), Savepoint: info.File, SHA256: info.SHA256, Checkpoint: info.Checkpoint, Position: info.Position}
		for _, e := range at.outbox.Ends() {
			left.Ends = append(left.Ends, pipeline.SinkMark{UID: e.UID, Seq: e.Seq})
		}
		if then == nil {
			return nil
		}
		if err := then(ctx, at); err != nil {
			return errors.Join(err, at.noteRun(0, 0), at.engine.Halt(context.WithoutCancel(ctx), false))
		}
		return nil
	}})
	return left, err
}

// retain keeps the journal from letting go of what going on from S needs (RULES 22). A repeat is harmless.
func (a *Agent) retain(prefix string, s saved) {
	if s.Savepoint != "" && !plantedUnheld() {
		a.journal.Retain(prefix+s.UUID, pipeline.Position(s.Position))
	}
}

func (a *Agent) pipelineDir(uuid string) string { return filepath.Join(a.pipelinesDir(), uuid) }

// order has the next start of the pipeline restore S.
func (a *Agent) order(s saved, allowDropped bool) error {
	return restore.Order(a.pipelineDir(s.UUID), api.RestoreOptions{File: s.Savepoint, SHA256: s.SHA256, AllowDroppedState: allowDropped})
}

// withdraw takes the order back, where it is not carried out.
func (a *Agent) withdraw(uuid string) error {
	if err := restore.Cancel(a.pipelineDir(uuid)); err != nil && !errors.Is(err, restore.ErrNoOrder) {
		return err
	}
	return nil
}

// undo makes void what was made behind S (RULES 26), and has what made S start from it. The pipeline does not run, and what made S has not run since: a repeat is harmless until
// it has.
func (a *Agent) undo(ctx context.Context, s saved) error {
	if err := a.revoke(ctx, s); err != nil {
		return fmt.Errorf("pipeline %s: %w", s.Name, err)
	}
	if err := statedir.WriteLastRun(a.pipelineDir(s.UUID), statedir.LastRun{Plan: s.Plan, Stopped: s.Checkpoint, Position: s.Position}); err != nil { // nothing made behind S has left
		return err
	}
	return a.order(s, false)
}

func (a *Agent) revoke(ctx context.Context, s saved) (err error) {
	if a.options.uncut {
		return nil
	}
	box, _, err := outbox.Open(outbox.Options{
		FS: disk.OS, Dir: filepath.Join(a.pipelineDir(s.UUID), outboxDir), Config: a.reserve().Outbox(), Stamp: a.clock.Stamp, Codec: a.codec, Logger: a.log,
	})
	if err != nil {
		return fmt.Errorf("open outbox: %w", err)
	}
	defer func() { err = errors.Join(err, box.Close()) }()
	return box.Revoke(ctx, s.Ends)
}

// backPoll is how often it is looked whether all pipelines stand on S again.
const backPoll = 20 * time.Millisecond

// awaitBack waits until the pipelines stand on the checkpoints that their S became: then nothing needs S any more.
func (a *Agent) awaitBack(ctx context.Context, list []saved) error {
	tick := time.NewTicker(backPoll)
	defer tick.Stop()
	for {
		pending, err := a.pendingBack(list)
		if err != nil || !pending {
			return err
		}
		select {
		case <-tick.C:
		case <-a.fence.up:
			return a.fence.err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (a *Agent) pendingBack(list []saved) (pending bool, err error) {
	for _, back := range list {
		ordered, err := restore.Pending(a.pipelineDir(back.UUID))
		if err != nil {
			return false, err
		}
		if s := a.named(back.Name); ordered && s != nil {
			s.mu.Lock()
			state, err := s.state, s.err
			s.mu.Unlock()
			if state == PipelineFailed {
				return false, fmt.Errorf("pipeline %s does not start with the savepoint: %w", back.Name, err)
			}
		}
		pending = pending || ordered
	}
	return pending, nil
}
