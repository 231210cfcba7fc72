package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
)

// registry reads the registry. One that is damaged can be made anew when it is certain which directory is which pipeline's: the plan that lies in it is
// that of one pipeline of the config, and of no other. A guess would give a pipeline the state of another.
func (c *checker) registry(ctx context.Context) error {
	dir := c.cfg.StateDir.Value
	lock, err := statedir.Acquire(dir)
	if err != nil {
		return err
	}
	defer lock.Close()
	have, err := statedir.OpenRegistry(c.fs, dir)
	if err == nil {
		err = have.CheckIDs()
	}
	if err == nil {
		return nil
	}
	if record.IsNewer(err) {
		c.report.stops("the agent does not start: %v", err)
		return nil
	}
	c.report.damage("%v", err)
	made, why := c.rebuild(ctx, dir)
	if why != "" {
		c.report.stops("the agent does not start: the registry is damaged and cannot be made anew: %s", why)
		return nil
	}
	if err := c.replace(made); err != nil {
		return err
	}
	if c.repair {
		c.report.repaired("the registry is made anew: %d pipelines, each known by its plan", len(made.Pipelines))
	}
	return nil
}

// replace keeps the damaged registry under another name before it writes the new one in its place: there is always one, since without any each pipeline would begin
// anew under a new identity.
func (c *checker) replace(made *statedir.Registry) error {
	b, err := disk.ReadFile(c.fs, made.Path())
	if err != nil {
		return fmt.Errorf("read registry: %w", err)
	}
	to, err := c.asideName(made.Path())
	if err == nil {
		err = disk.WriteFileAtomic(c.fs, to, b)
	}
	if err == nil {
		err = made.Save()
	}
	if err != nil {
		return fmt.Errorf("make the registry anew: %w", err)
	}
	if c.repair {
		c.report.repaired("the damaged registry is kept as %s", to)
	}
	return nil
}

// rebuild makes a registry of what lies in the directories of pipelines; why says why it is not certain.
func (c *checker) rebuild(ctx context.Context, dir string) (r *statedir.Registry, why string) {
	r = statedir.NewRegistry(c.fs, dir)
	names := map[string][]string{} // plan → pipelines of the config
	for _, p := range c.cfg.Pipelines {
		runs := []*config.Pipeline{p}
		if p.Restart.Failover == config.FailoverRegion {
			runs = p.Regions()
		}
		for _, p := range runs {
			hash := hex.EncodeToString(p.Graph.Hash[:])
			names[hash] = append(names[hash], p.Name.Value)
		}
	}
	ids, err := c.fs.List(filepath.Join(dir, "pipelines"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err.Error()
	}
	for _, id := range ids {
		if _, err := statedir.ParseUUID(id); err != nil {
			continue
		}
		hash, ran := c.planIn(filepath.Join(dir, "pipelines", id))
		switch of := names[hash]; {
		case hash == "" && !ran: // made, and never used
			continue
		case hash == "":
			return nil, fmt.Sprintf("pipelines/%s holds no plan", id)
		case len(of) == 0:
			return nil, fmt.Sprintf("no pipeline of the config has the plan of pipelines/%s: use the config that it ran with", id)
		case len(of) > 1:
			return nil, fmt.Sprintf("%s have one plan: pipelines/%s may be either's", strings.Join(of, " and "), id)
		case r.Pipelines[of[0]] != "":
			return nil, fmt.Sprintf("pipelines/%s and pipelines/%s have the plan of %s", r.Pipelines[of[0]], id, of[0])
		default:
			r.Pipelines[of[0]] = dashed(id)
		}
	}
	r.Journal = c.journalOf(ctx)
	return r, ""
}

// planIn gives the hash of the one plan in a pipeline's directory, and whether the pipeline ever ran.
func (c *checker) planIn(dir string) (hash string, ran bool) {
	files, err := c.fs.List(dir)
	if err != nil {
		return "", true
	}
	ran = slices.Contains(files, statedir.BegunFile) || slices.Contains(files, statedir.LastRunFile)
	plans := slices.DeleteFunc(files, func(n string) bool { return !strings.HasPrefix(n, planFile) || !strings.HasSuffix(n, ".txt") })
	if len(plans) != 1 {
		return "", ran || len(plans) > 0
	}
	return strings.TrimSuffix(strings.TrimPrefix(plans[0], planFile), ".txt"), true
}

// journalOf is the identity that the newest savepoint of this device names; "": a new one is made, and earlier savepoints ask for --accept-gap.
func (c *checker) journalOf(ctx context.Context) (journal string) {
	files, _ := filepath.Glob(filepath.Join(restore.SavepointDir(c.cfg), "*"+restore.SavepointSuffix))
	newest := int64(0)
	for _, name := range files {
		f, err := restore.ReadSavepoint(ctx, name)
		if err != nil {
			continue
		}
		if f.Head.CreatedMs >= newest {
			newest, journal = f.Head.CreatedMs, f.Head.Journal
		}
		_ = f.Close() // it was read
	}
	return journal
}

// dashed writes the name of a pipeline's directory as the registry does.
func dashed(h string) string {
	if len(h) != 32 {
		return h
	}
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
