package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot"
)

// pipeline reads a pipeline's stores, sets aside what is damaged in them, and tells whether it starts.
func (c *checker) pipeline(ctx context.Context, p *config.Pipeline) error {
	a, r, name := c.agent, c.report, p.Name.Value
	id, err := statedir.ParseUUID(a.registry.UUID(name))
	if err != nil {
		return err
	}
	at := &attempt{agent: a, spec: p, graph: p.Graph, id: id, log: a.log.With("pipeline", name)}
	defer at.close()
	stops, err := c.smallFiles(at)
	if err != nil {
		return err
	}
	if err := at.openStorage(ctx, at.dir()); err != nil {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !at.begun() && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, snapshot.ErrMissing)):
			r.line("pipeline %s: has not run yet", name)
			return nil
		case !record.IsNewer(err):
			r.damage("pipeline %s: %v", name, err)
		}
		if record.IsNewer(err) || c.repair {
			r.stops("pipeline %s does not start: %v", name, err)
		}
		return nil
	}
	list, err := at.store.List(ctx)
	if err != nil {
		return fmt.Errorf("pipeline %s: %w", name, err)
	}
	for _, d := range list.Damage {
		r.damage("pipeline %s: %s", name, d)
	}
	good, err := c.checkpoints(ctx, at, &list)
	if err != nil {
		return err
	}
	begins := list.Fresh && !at.begun()
	switch {
	case stops != "":
		r.stops("pipeline %s does not start: %s", name, stops)
	case good == nil && !begins:
		r.stops("pipeline %s does not start: none of its checkpoints is valid; restore a savepoint (weir savepoint restore %s FILE), or begin anew from the journal (weir run --allow-empty %s)", name, name, name)
	case good != nil && good.Position+1 < a.journal.First():
		r.stops("pipeline %s does not start: it stands at position %d and the journal begins at %d; weir run --accept-gap %s goes on behind the gap", name, good.Position, a.journal.First(), name)
	}
	return nil
}

// checkpoints verifies all, newest first, and gives the newest that is whole.
func (c *checker) checkpoints(ctx context.Context, at *attempt, list *snapshot.Listing) (good *snapshot.Manifest, err error) {
	r, name := c.report, at.spec.Name.Value
	for _, b := range list.SetAside {
		r.damage("pipeline %s, checkpoint %d: %s", name, b.ID, b.Reason)
	}
	for _, b := range list.Bad {
		if b.Newer {
			r.stops("pipeline %s does not start: checkpoint %d: %s", name, b.ID, b.Reason)
			continue
		}
		if err := c.setAside(ctx, at, b.ID, b.Reason); err != nil {
			return nil, err
		}
	}
	for _, m := range list.Manifests {
		bad := at.store.Verify(ctx, m)
		if bad == nil {
			if bad = at.whole(m.Outbox); bad != nil {
				bad = fmt.Errorf("its results are not whole: %w", bad)
			}
		}
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(bad, snapshot.ErrUnanswered) && !record.IsNewer(bad):
			return nil, fmt.Errorf("pipeline %s, checkpoint %d: %w", name, m.ID, bad)
		case record.IsNewer(bad):
			r.stops("pipeline %s does not start: checkpoint %d: %v", name, m.ID, bad)
		case bad != nil:
			if err := c.setAside(ctx, at, m.ID, bad.Error()); err != nil {
				return nil, err
			}
		default:
			r.line("pipeline %s: checkpoint %d at position %d is whole", name, m.ID, m.Position)
			if good == nil {
				good = m
			}
		}
	}
	return good, nil
}

func (c *checker) setAside(ctx context.Context, at *attempt, id uint64, reason string) error {
	name := at.spec.Name.Value
	c.report.damage("pipeline %s, checkpoint %d: %s", name, id, reason)
	if !c.repair {
		return nil
	}
	if err := at.store.SetAside(ctx, id, reason); err != nil {
		return fmt.Errorf("pipeline %s: set checkpoint %d aside: %w", name, id, err)
	}
	c.report.repaired("pipeline %s: checkpoint %d is set aside", name, id)
	return nil
}

// smallFiles reads the JSON files in a pipeline's directory. stops says what keeps the pipeline from starting.
func (c *checker) smallFiles(at *attempt) (stops string, err error) {
	r, name := c.report, at.spec.Name.Value
	if _, err := at.readLastRun(); record.IsNewer(err) {
		stops = err.Error()
	} else if err != nil {
		r.damage("pipeline %s: %v; a restore of a savepoint asks for --accept-gap then", name, err)
		if c.repair {
			if err := c.moveAside(filepath.Join(at.dir(), statedir.LastRunFile)); err != nil {
				return "", err
			}
		}
	}
	if _, err := at.inheritance(); record.IsNewer(err) {
		stops = err.Error()
	} else if err != nil {
		r.damage("pipeline %s: %s: %v; results that upstream holds may be sent once more", name, inheritedFile, err)
		if c.repair {
			if err := c.moveAside(filepath.Join(at.dir(), inheritedFile)); err != nil {
				return "", err
			}
		}
	}
	if _, err := at.readLoss(); err != nil {
		stops = err.Error()
		if !record.IsNewer(err) {
			r.damage("pipeline %s: %v", name, err)
		}
	}
	o, there, err := restore.Ordered(at.agent.fs, at.dir())
	if err == nil {
		if there {
			r.line("pipeline %s: its next start restores %s", name, o.File)
		}
		return stops, nil
	}
	if !record.IsNewer(err) {
		r.damage("pipeline %s: %s: %v", name, restore.File, err)
	}
	return fmt.Sprintf("the order of a restore cannot be read: %v; take it back (weir savepoint restore %s --cancel) and order again", err, name), nil
}

// moveAside gives a damaged file another name, durably.
func (c *checker) moveAside(path string) error {
	to, err := c.asideName(path)
	if err == nil {
		err = c.fs.Rename(path, to)
	}
	if err == nil {
		err = c.fs.SyncDir(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("set %s aside: %w", path, err)
	}
	c.report.repaired("%s is set aside as %s", path, filepath.Base(to))
	return nil
}

// asideName is a name that no file has.
func (c *checker) asideName(path string) (string, error) {
	for n := 1; ; n++ {
		to := fmt.Sprintf("%s.aside-%d", path, n)
		f, err := c.fs.Open(to)
		if errors.Is(err, fs.ErrNotExist) {
			return to, nil
		}
		if err != nil {
			return "", err
		}
		if err := f.Close(); err != nil {
			return "", err
		}
	}
}
