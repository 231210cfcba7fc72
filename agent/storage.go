package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/outbox"
)

// outboxDir is the outbox in a pipeline's directory.
const outboxDir = "outbox"

// openStorage opens checkpoints, outbox and dead letters of the pipeline through recovery.
func (a *attempt) openStorage(ctx context.Context, dir string) (err error) {
	if err := a.agent.elsewhere(a.spec, dir); err != nil {
		return err
	}
	if err := a.agent.fs.MkdirAll(dir); err != nil {
		return fmt.Errorf("make %s: %w", dir, err)
	}
	if a.store = a.agent.takeEarly(a.spec.Name.Value); a.store == nil {
		if a.store, err = a.agent.openStore(ctx, a.spec, a.id, dir, a.log); err != nil {
			return err
		}
	}
	a.step()
	var recovered *outbox.Recovery
	a.outbox, recovered, err = outbox.Open(outbox.Options{
		FS: a.agent.fs, Dir: filepath.Join(dir, outboxDir), Config: a.agent.reserve().Outbox(), Stamp: a.agent.clock.Stamp, Codec: a.agent.codec, Logger: a.log, Failed: a.storageFailed, Waiting: a.step,
		Divergence: func(sink string, seq, held, made uint64) {
			a.log.Error("divergence: a result made again differs from the one delivered; the pipeline is not deterministic or its journal was damaged",
				"sink", sink, "seq", seq, "held", held, "made", made)
			a.agent.diverged.Add(a.spec.Name.Value, sink, seq) // whoever sees the count finds the line
		},
	})
	if err != nil {
		return fmt.Errorf("open outbox: %w", err)
	}
	a.step()
	for _, d := range recovered.Damaged {
		a.log.Error("outbox record is damaged and counts as missing", "what", d)
	}
	return a.openDead(ctx, filepath.Join(dir, deadDir))
}

// storageFailed ends the attempt: a log of it takes nothing any more. The next one opens it through recovery.
func (a *attempt) storageFailed(err error) {
	if a.agent.options.deaf {
		return
	}
	select {
	case a.broken <- err:
	default: // one is enough
	}
}

// watchStorage gives the failure of the attempt's outbox or dead letters. The journal has the agent, the checkpoints have their coordinator.
func (a *attempt) watchStorage(ctx context.Context) error {
	select {
	case err := <-a.broken:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// openStore opens a pipeline's checkpoints through recovery.
func (a *Agent) openStore(ctx context.Context, spec *config.Pipeline, id snapshot.UUID, dir string, logger *slog.Logger) (snapshot.Store, error) {
	if spec.Checkpoint.Dir != "" {
		dir = statedir.CheckpointsDir(dir, spec.Checkpoint.Dir)
		if err := a.fs.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("make %s: %w", dir, err)
		}
	}
	if spec.Checkpoint.Store == "bbolt" {
		s, err := snapshot.OpenBolt(snapshot.BoltOptions{Path: filepath.Join(dir, statedir.BoltStoreFile), Pipeline: id, Codec: a.codec, Logger: logger, ReadOnly: a.looks()})
		if err != nil {
			return nil, fmt.Errorf("open checkpoint store: %w", err)
		}
		return s, nil
	}
	open := snapshot.OpenLog
	if spec.Checkpoint.Store == config.StorePebble {
		open = snapshot.OpenPebble
	}
	s, err := open(ctx, snapshot.LogOptions{
		FS: a.fs, Dir: filepath.Join(dir, statedir.LogStoreDir), Pipeline: id, Log: a.reserve().Checkpoints(), Catalog: filepath.Join(dir, statedir.CatalogFile), Codec: a.codec, Logger: logger,
		ReadOnlyCatalog: a.looks(), Waiting: func() { a.working.step(spec.Name.Value) },
	})
	if err != nil {
		return nil, fmt.Errorf("open checkpoint store: %w", err)
	}
	return s, nil
}

// checkpointConfig takes the settings over.
func (a *attempt) checkpointConfig() snapshot.Config {
	s, c := &a.spec.Checkpoint, snapshot.Default()
	c.Interval, c.EveryRecords, c.MinPause = s.Interval, uint64(s.EveryRecords), s.MinPause
	if s.Timeout > 0 {
		c.Timeout = s.Timeout
	}
	if s.Retained > 0 {
		c.Retained = s.Retained
	}
	if s.RebaseRatio > 0 {
		c.RebaseRatio = s.RebaseRatio
	}
	c.TolerableFailures = s.TolerableFailures // 0 is Flink's default and means: none
	if s.AlarmAfter > 0 {
		c.AlarmAfter = s.AlarmAfter
	}
	if s.IdleInterval > 0 {
		c.IdleInterval = s.IdleInterval
	}
	if s.Mode == string(snapshot.AtLeastOnce) {
		c.Mode = snapshot.AtLeastOnce
	}
	return c
}

// reserve is what is left free of the disk of state_dir.
func (a *Agent) reserve() space.Reserve {
	return space.Reserve{Bytes: a.config.Journal.ReserveBytes, One: a.options.oneReserve}
}
