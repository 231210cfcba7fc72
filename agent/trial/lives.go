package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sort"
	"time"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/disk"
)

// event is what happens to the agent at a time of the case.
type event struct {
	at   time.Duration
	kind eventKind
}

type eventKind uint8

const (
	checkpoint eventKind = iota // before a crash at the same time
	restart
	crash
)

// schedule puts checkpoints, restarts and crashes in order. Without checkpoint_at they come at the pipeline's interval.
func (c *Case) schedule(interval time.Duration) (events []event) {
	for _, at := range c.CrashAt {
		events = append(events, event{time.Duration(at), crash})
	}
	for _, at := range c.RestartAt {
		events = append(events, event{time.Duration(at), restart})
	}
	for _, at := range c.CheckpointAt {
		events = append(events, event{time.Duration(at), checkpoint})
	}
	if len(c.CheckpointAt) == 0 && interval > 0 {
		end := time.Duration(c.Input[len(c.Input)-1].At)
		for at := interval; at <= end && len(events) < checkpointsMax; at += interval {
			events = append(events, event{at, checkpoint})
		}
	}
	sort.SliceStable(events, func(i, j int) bool {
		a, b := &events[i], &events[j]
		return a.at < b.at || a.at == b.at && a.kind < b.kind
	})
	return events
}

// checkpointsMax bounds the checkpoints of a case that spans days.
const checkpointsMax = 10_000

// errCrash ends a life: what its tasks do at that moment is gone.
var errCrash = errors.New("crash")

// lives runs a journal with everything that happens to the agent. Checkpoints are real: coordinator, log store, restore.
type lives struct {
	pipeline *config.Pipeline
	journal  []pipeline.Entry
	events   []event
	end      error // of the journal
	up       *upstream
	dir      string
	id       snapshot.UUID
	spoil    func(pipeline.StateSource) pipeline.StateSource
}

func (l *lives) run(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "weir-test-")
	if err != nil {
		return fmt.Errorf("make directory for checkpoints: %w", err)
	}
	defer os.RemoveAll(dir)
	l.dir, l.id = dir, snapshot.UUID{1}
	for {
		again, err := l.life(ctx)
		if err != nil || !again {
			return err
		}
	}
}

// life runs from the newest checkpoint to the next crash or restart, or to the end.
func (l *lives) life(ctx context.Context) (again bool, err error) {
	quiet := slog.New(slog.DiscardHandler)
	store, err := snapshot.OpenLog(ctx, snapshot.LogOptions{FS: disk.OS, Dir: l.dir, Pipeline: l.id, Logger: quiet})
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	var from pipeline.StateSource
	var current *snapshot.Manifest
	r, err := snapshot.Restore(ctx, snapshot.RestoreOptions{Store: store, Pipeline: l.id})
	switch {
	case err == nil:
		from, current = r.Source, r.Manifest
		if l.spoil != nil {
			from = l.spoil(from)
		}
	case !errors.Is(err, snapshot.ErrNoCheckpoint):
		return false, err
	}
	var c *snapshot.Coordinator
	reader := &liveReader{lives: l}
	p, err := exec.New(exec.Options{
		Graph: l.pipeline.Graph, Restore: from, Generation: 1, Sink: l.up.sink, Logger: quiet,
		Deliver: func(s pipeline.TaskSnapshot) { c.Deliver(s) },
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			reader.next = int(after)
			return reader, nil
		},
	})
	if err != nil {
		return false, err
	}
	settings := snapshot.Default()
	settings.Interval = 0
	c, err = snapshot.NewCoordinator(snapshot.Options{
		Config: settings, Store: store, Engine: p, Tasks: p.Tasks(), Current: current, Logger: quiet,
		Identity: snapshot.Identity{Pipeline: l.id, PlanHash: l.pipeline.Graph.Hash, Generation: 1, Incarnation: snapshot.Incarnation{Major: 1}},
	})
	if err != nil {
		return false, err
	}
	if current == nil {
		if _, err := c.CommitInitial(ctx, snapshot.Initial{}); err != nil {
			return false, fmt.Errorf("first checkpoint: %w", err)
		}
	}
	reader.engine = p
	reader.trigger = func(ctx context.Context) error {
		c.Records(1)
		_, err := c.Trigger(ctx)
		return err
	}
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- c.Run(running) }() // waited for below
	err = p.Run(ctx)
	stop()
	if failed := <-ended; failed != nil && !errors.Is(failed, context.Canceled) {
		return false, fmt.Errorf("checkpoints: %w", failed)
	}
	switch {
	case errors.Is(err, errCrash):
		return true, nil
	case errors.Is(err, errEnd):
		return false, nil
	}
	return false, err
}

// liveReader gives the journal record by record until something happens.
type liveReader struct {
	lives   *lives
	next    int               // index into the journal
	handed  pipeline.Position // in this life
	engine  engine
	trigger func(context.Context) error
}

func (r *liveReader) Next(ctx context.Context) (*pipeline.Block, error) {
	l := r.lives
	if err := settle(ctx, r.engine, r.handed); err != nil { // what comes next finds all results upstream: the worst case for a copy
		return nil, err
	}
	for len(l.events) > 0 && (r.next >= len(l.journal) || l.journal[r.next].Stamp.Elapsed > int64(l.events[0].at)) {
		e := l.events[0]
		l.events = l.events[1:]
		if e.kind != crash {
			if err := r.trigger(ctx); err != nil {
				return nil, fmt.Errorf("checkpoint at %s: %w", e.at, err)
			}
		}
		if e.kind != checkpoint {
			return nil, errCrash
		}
	}
	if r.next >= len(l.journal) {
		return nil, l.end
	}
	block := &pipeline.Block{First: l.journal[r.next].Pos, Last: l.journal[r.next].Pos, Entries: l.journal[r.next : r.next+1]}
	r.next++
	r.handed = block.Last
	return block, nil
}

func (r *liveReader) Close() error { return nil }
