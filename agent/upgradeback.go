//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/outbox"
)

// revertsMax is how often the backend is asked to run the old program for good, before its pipelines go on without.
const revertsMax = 5

// revert is the way back of the old program: what the new one made is void, and its own pipelines are to start from S. None runs. The journal is not touched: the messages that came meanwhile are in it.
func (u *upgrader) revert(ctx context.Context) error {
	if !u.rec.Rescue {
		for _, s := range u.backTo() {
			if err := u.setAside(ctx, s); err != nil {
				return err
			}
			if err := u.agent.undo(ctx, s); err != nil {
				return err
			}
		}
		u.agent.die("upgrade-undone")
	}
	if u.backend == nil {
		return u.note(upgrade.Event{Kind: upgrade.GaveUp, Why: errNoBackend.Error()})
	}
	err := u.backend.Revert(ctx, u.rec.Active)
	switch {
	case err == nil:
		return u.note(upgrade.Event{Kind: upgrade.Reverted})
	case ctx.Err() != nil:
		return err
	}
	if u.tally["revert"]++; u.tally["revert"] < revertsMax {
		return fmt.Errorf("revert to slot %s: %w", u.rec.Active, err)
	}
	u.agent.log.Error("the old program runs, and could not be made the one for good; it is tried again", "slot", string(u.rec.Active), "error", err)
	return u.note(upgrade.Event{Kind: upgrade.GaveUp, Why: err.Error()})
}

// revertAgain is asked while pipelines run.
func (u *upgrader) revertAgain(ctx context.Context) error {
	if u.backend == nil {
		return errNoBackend
	}
	if err := u.backend.Revert(ctx, u.rec.Runs()); err != nil {
		return fmt.Errorf("revert to slot %s: %w", u.rec.Runs(), err)
	}
	if u.rec.Unreverted {
		return u.note(upgrade.Event{Kind: upgrade.Reverted})
	}
	u.act.Revert = false // a program that is not to run, and waits for help
	return nil
}

// restore has the pipelines start from S, and waits until each stands on the checkpoint that S became.
func (u *upgrader) restore(ctx context.Context) error {
	if err := u.start(ctx); err != nil {
		return err
	}
	u.waits("the pipelines start from their savepoints")
	if err := u.agent.awaitBack(ctx, u.backTo()); err != nil {
		return err
	}
	if err := u.note(upgrade.Event{Kind: upgrade.Restored}); err != nil {
		return err
	}
	u.agent.log.Info("the program before runs again, from its savepoints", "version", u.rec.From.Version, "why", u.rec.Why)
	u.unhold()
	u.clean(ctx)
	return nil
}

// setAside moves away what this program cannot open: S has all that a pipeline needs but the journal.
func (u *upgrader) setAside(ctx context.Context, s saved) error {
	a := u.agent
	dir := a.pipelineDir(s.UUID)
	spec := partOf(a.config, s.Name)
	if early := a.takeEarly(s.Name); early != nil {
		if err := early.Close(); err != nil {
			return err
		}
	} else if spec != nil {
		if err := u.tryStore(ctx, s, dir); err != nil {
			at := statedir.CheckpointsDir(dir, spec.Checkpoint.Dir)
			for _, name := range []string{statedir.LogStoreDir, statedir.BoltStoreFile, statedir.CatalogFile} {
				if err := u.moveAside(filepath.Join(at, name), err); err != nil {
					return err
				}
			}
		}
	}
	box, _, err := outbox.Open(outbox.Options{FS: disk.OS, Dir: filepath.Join(dir, outboxDir), Config: a.reserve().Outbox(), Stamp: a.clock.Stamp, Codec: a.codec, Logger: a.log})
	if err == nil {
		err = box.Close()
	}
	if err != nil {
		if err := u.moveAside(filepath.Join(dir, outboxDir), err); err != nil {
			return err
		}
	}
	if spec != nil {
		dead, err := a.openDead(filepath.Join(dir, deadDir), spec, a.log, nil)
		if err == nil {
			err = dead.Close()
		}
		if err != nil {
			if err := u.moveAside(filepath.Join(dir, deadDir), err); err != nil {
				return err
			}
		}
	}
	return u.asideNewer(dir)
}

// asideNewer moves the small files away that are of a newer program.
func (u *upgrader) asideNewer(dir string) error {
	_, _, order := restore.Ordered(u.agent.fs, dir)
	_, begun := statedir.ReadBegun(u.agent.fs, dir)
	_, last := statedir.ReadLastRun(u.agent.fs, dir)
	for name, err := range map[string]error{restore.File: order, statedir.BegunFile: begun, statedir.LastRunFile: last} {
		if record.IsNewer(err) {
			if err := u.moveAside(filepath.Join(dir, name), err); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *upgrader) tryStore(ctx context.Context, s saved, dir string) error {
	id, err := statedir.ParseUUID(s.UUID)
	if err != nil {
		return err
	}
	store, err := u.agent.openStore(ctx, partOf(u.agent.config, s.Name), id, dir, u.agent.log)
	if err != nil {
		return err
	}
	return store.Close()
}

// moveAside renames a file or a directory; the one that was set aside before goes. Repeating it is harmless. What the disk does not give says nothing against what is on it: it is tried again.
func (u *upgrader) moveAside(name string, why error) error {
	if ofDisk(why) {
		return why
	}
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := os.RemoveAll(name + asideSuffix); err != nil {
		return fmt.Errorf("set aside %s: %w", name, err)
	}
	if err := os.Rename(name, name+asideSuffix); err != nil {
		return fmt.Errorf("set aside %s: %w", name, err)
	}
	u.agent.log.Warn("what the new program left cannot be used by the one before, and is set aside", "what", name+asideSuffix, "why", why)
	return disk.OS.SyncDir(filepath.Dir(name))
}
