package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// CreateSavepoint makes a savepoint of a running pipeline, one file for each of its regions. Durable and verified on return; the pipeline
// goes on.
func (a *Agent) CreateSavepoint(ctx context.Context, pipeline string, o api.SavepointOptions) (list []api.SavepointInfo, err error) {
	if err := a.upgrader.masters(); err != nil {
		return nil, err
	}
	if o.Drain {
		return nil, errors.New("create savepoint: only a pipeline that stops can be drained")
	}
	supervisors, err := a.supervisorsOf(pipeline)
	if err != nil {
		return nil, err
	}
	for _, s := range supervisors {
		at, err := a.runningOf(s.name)
		if err != nil {
			return list, err
		}
		info, err := at.takeSavepoint(ctx, o, false)
		if err != nil {
			return list, err
		}
		list = append(list, info)
	}
	return list, nil
}

// StopWithSavepoint stops a pipeline behind a savepoint: nothing was read, and no result came, behind it. When the savepoint fails the
// pipeline goes on.
func (a *Agent) StopWithSavepoint(ctx context.Context, pipeline string, o api.SavepointOptions) (list []api.SavepointInfo, err error) {
	if err := a.upgrader.masters(); err != nil {
		return nil, err
	}
	supervisors, err := a.supervisorsOf(pipeline)
	if err != nil {
		return nil, err
	}
	for _, s := range supervisors {
		err := s.ask(ctx, command{stop: true, before: func(at *attempt) error {
			info, err := at.lastSavepoint(ctx, o)
			list = append(list, info)
			return err
		}})
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// lastSavepoint reads no further and makes a savepoint of all that was read; with o.Drain, behind the end of event time.
func (a *attempt) lastSavepoint(ctx context.Context, o api.SavepointOptions) (info api.SavepointInfo, err error) {
	if err := a.engine.Halt(ctx, true); err != nil {
		return info, fmt.Errorf("stop with savepoint: %w", err)
	}
	if o.Drain {
		a.outbox.Withhold() // a replay after a crash has no drain: what it gives leaves with the checkpoint behind it
		if err := a.engine.Drain(ctx); err != nil {
			return info, fmt.Errorf("stop with savepoint: %w: %w", errDrained, err)
		}
		a.coordinator.Records(1) // no record came, and yet the checkpoint before it is not enough
	}
	if info, err = a.takeSavepoint(ctx, o, o.Drain); err == nil {
		err = a.noteRun(info.Checkpoint, info.Position)
	}
	switch {
	case err != nil && o.Drain:
		err = fmt.Errorf("%w: %w", errDrained, err)
	case err != nil:
		err = errors.Join(err, a.engine.Halt(context.WithoutCancel(ctx), false))
	}
	return info, err
}

func (a *attempt) takeSavepoint(ctx context.Context, o api.SavepointOptions, drained bool) (info api.SavepointInfo, err error) {
	path, err := a.savepointPath(o)
	if err != nil {
		return info, err
	}
	started := time.Now()
	told, end := a.work("writing the savepoint", "bytes", 0)
	defer end()
	head, sum, err := savepoints.Take(ctx, disk.OS, path, savepoints.Running{
		Hold: a.coordinator.Hold, Store: a.store, Outbox: a.outbox, Graph: a.graph, Codec: a.agent.codec,
		About: savepoint.Head{
			Writer: Version(), Gateway: a.agent.gateway(), Pipeline: a.spec.Name.Value, Journal: a.agent.registry.Journal, Drained: drained,
			ElapsedNs: a.agent.clock.Elapsed(),
		},
	}, func(n int64) { told(uint64(n)) })
	if err != nil {
		return info, err
	}
	a.log.Info("savepoint made", "file", path, "position", head.Position, "bytes", sum.Bytes, "entries", sum.Entries, "results", sum.Results, "took", time.Since(started))
	return restore.SavepointInfo(path, head, sum), nil
}

// savepointPath is where a new savepoint goes: the name that was asked for, or PIPELINE-TIME, in the directory that was asked for, or that of
// all. Names are given once.
func (a *attempt) savepointPath(o api.SavepointOptions) (string, error) {
	dir := o.Dir
	if dir == "" {
		dir = restore.SavepointDir(a.agent.config)
	}
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("savepoint directory %s: the agent needs an absolute path", dir)
	}
	name := o.Name
	if name == "" {
		name = a.spec.Name.Value + "-" + time.Now().UTC().Format("20060102T150405Z")
	} else if a.spec.Name.Value != o.Pipeline {
		name += "-" + strings.TrimPrefix(a.spec.Name.Value, o.Pipeline) // a region
	}
	name = strings.ReplaceAll(strings.TrimSuffix(name, restore.SavepointSuffix), plan.PartSeparator, "_")
	if name != filepath.Base(name) || strings.HasPrefix(name, ".") || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "", fmt.Errorf("savepoint name %q: no path, no leading dot, and only what can be printed; --dir says where it goes", o.Name)
	}
	for n := 1; ; n++ {
		path := filepath.Join(dir, name+restore.SavepointSuffix)
		if n > 1 {
			path = filepath.Join(dir, fmt.Sprintf("%s.%d%s", name, n, restore.SavepointSuffix))
		}
		switch _, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil
		case err != nil:
			return "", fmt.Errorf("savepoint: %w", err)
		case o.Name != "":
			return "", fmt.Errorf("savepoint %s: %w", path, fs.ErrExist)
		}
	}
}
