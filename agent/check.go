package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
)

// CheckReport is what fsck found, and with repair what it did.
type CheckReport struct {
	Lines  []string `json:"lines"`
	Damage []string `json:"damage"`
	// Repaired is what was done. What is damaged was set aside before, never deleted.
	Repaired []string `json:"repaired,omitempty"`
	// Stops says what keeps the agent or a pipeline from starting, and what to do. Of a check without repair it is what keeps it now.
	Stops []string `json:"stops,omitempty"`
}

func (r *CheckReport) line(format string, args ...any) {
	r.Lines = append(r.Lines, fmt.Sprintf(format, args...))
}

func (r *CheckReport) damage(format string, args ...any) {
	r.Damage = append(r.Damage, fmt.Sprintf(format, args...))
}

func (r *CheckReport) repaired(format string, args ...any) {
	r.Repaired = append(r.Repaired, fmt.Sprintf(format, args...))
}

func (r *CheckReport) stops(format string, args ...any) {
	r.Stops = append(r.Stops, fmt.Sprintf(format, args...))
}

// Check reads everything durable of a stopped agent: each journal record, each frame of each retained checkpoint, each outbox range that a
// checkpoint relies on, each savepoint in state_dir, the small files. It takes the lock of state_dir; ErrLocked when the agent runs. It changes nothing:
// what a recovery would write stays in memory.
//
// Repair does what can be done without losing anything that counts: it lets the recovery of a start write, sets damaged checkpoints, savepoints and files aside, and
// makes anew what can be made from what is whole (catalog, registry). It can be cut short at any instant and be run again. Neither touches the central store: on another board
// no incarnation is taken, which would stop the device that has it.
func Check(ctx context.Context, cfg *config.Config, repair bool) (*CheckReport, error) {
	return check(ctx, cfg, repair, disk.OS)
}

func check(ctx context.Context, cfg *config.Config, repair bool, fsys disk.FS) (*CheckReport, error) {
	r := &CheckReport{Lines: []string{}, Damage: []string{}}
	c := &checker{cfg: cfg, report: r, repair: repair, fs: fsys}
	o := Options{Logger: slog.New(&damageLog{report: r}), fs: fsys, checks: true}
	if !repair {
		over := disk.NewOverlay(fsys)
		defer over.Close()
		c.fs, o.fs, o.looks = over, over, true
	}
	if err := c.registry(ctx); err != nil || len(r.Stops) > 0 {
		return r, err
	}
	a, err := New(cfg, o)
	if errors.Is(err, identity.ErrCorrupt) { // which of the gateway's lives this is cannot be known from what else lies here
		r.damage("%v", err)
	}
	if record.IsNewer(err) || errors.Is(err, identity.ErrCorrupt) {
		r.stops("the agent does not start: %v", err)
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	c.agent = a
	err = errors.Join(c.whole(ctx), a.Close())
	if err != nil {
		return nil, err
	}
	return r, nil
}

// checker goes through a state_dir.
type checker struct {
	cfg    *config.Config
	report *CheckReport
	repair bool
	fs     disk.FS // an overlay unless repair
	agent  *Agent
}

func (c *checker) whole(ctx context.Context) error {
	c.identity()
	if err := c.journal(ctx); err != nil {
		return err
	}
	for _, s := range c.agent.all() {
		if err := c.pipeline(ctx, s.spec.Pipeline); err != nil {
			return err
		}
	}
	return errors.Join(c.fleet(), c.savepoints(ctx, restore.SavepointDir(c.cfg)))
}

func (c *checker) journal(ctx context.Context) error {
	r, j, records := c.report, c.agent.journal, 0
	err := j.Scan(j.First(), func(e *pipeline.Entry) error {
		records++
		if e.Kind == pipeline.EntryGap && !journal.LeftOut(e) {
			r.damage("journal, position %d: %s", e.Pos, e.Payload)
		}
		return ctx.Err()
	})
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case record.IsNewer(err):
		r.stops("the journal: %v", err)
	case err != nil:
		r.damage("journal: %v", err)
	}
	r.line("journal: %d records, positions %d to %d", records, j.First(), j.Last())
	return nil
}

// asideSuffix is given to the name of a savepoint that is damaged.
const asideSuffix = ".aside"

// savepoints reads every byte of the savepoints in a directory. What a try that was cut short has left is no damage: the next one of that name
// replaces it.
func (c *checker) savepoints(ctx context.Context, dir string) error {
	r := c.report
	names, err := filepath.Glob(filepath.Join(dir, "*"+restore.SavepointSuffix))
	if err != nil {
		return fmt.Errorf("list savepoints: %w", err)
	}
	for _, name := range names {
		f, err := restore.ReadSavepoint(ctx, name)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			r.damage("%v", err)
			if c.repair && !record.IsNewer(err) {
				if err := errors.Join(c.fs.Rename(name, name+asideSuffix), c.fs.SyncDir(dir)); err != nil {
					return fmt.Errorf("set savepoint aside: %w", err)
				}
				r.repaired("savepoint %s is set aside as %s", name, filepath.Base(name)+asideSuffix)
			}
			continue
		}
		r.line("savepoint %s: of pipeline %s at position %d, is whole", filepath.Base(name), f.Head.Pipeline, f.Head.Position)
		if err := f.Close(); err != nil {
			return fmt.Errorf("close savepoint: %w", err)
		}
	}
	return nil
}
