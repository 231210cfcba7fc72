package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
)

func (a *attempt) begunPath() string { return filepath.Join(a.dir(), statedir.BegunFile) }

func (a *attempt) begun() bool {
	_, err := os.Stat(a.begunPath())
	return err == nil
}

// begin notes that there is a checkpoint, and where. Durable before the first record is read.
func (a *attempt) begin() error {
	now := statedir.BegunOf(&a.spec.Checkpoint)
	was, err := statedir.ReadBegun(a.agent.fs, a.dir())
	if err == nil && was == now {
		return nil
	}
	if !record.IsNewer(err) { // one that is not readable is replaced
		err = record.Write(disk.OS, a.begunPath(), now)
	}
	if err != nil {
		return fmt.Errorf("note that the pipeline has begun: %w", err)
	}
	return nil
}

// elsewhere refuses a pipeline whose checkpoints are in another store than the config names, before that store is opened: what lies there is nothing, or of the
// time before the pipeline left it, and to go on from either would lose what came since. A savepoint that is to be restored brings the state along.
func (a *Agent) elsewhere(spec *config.Pipeline, dir string) error {
	was, err := statedir.ReadBegun(a.fs, dir)
	if record.IsNewer(err) {
		return err
	}
	now := statedir.BegunOf(&spec.Checkpoint)
	if err != nil || was == (statedir.Begun{}) || was == now { // what is not readable tells nothing
		return nil
	}
	if _, there, _ := restore.Ordered(a.fs, dir); there {
		return nil
	}
	name := spec.Name.Value
	if was.Store != now.Store {
		return fmt.Errorf("%w: checkpoint.store is %s, and the pipeline's checkpoints are in store %s. Set it back to %s; to change it, stop the pipeline with a savepoint first (weir pipeline stop %s --savepoint) and restore that under the new setting (weir savepoint restore %s FILE)",
			errFinal, now.Store, was.Store, was.Store, name, name)
	}
	from, to := statedir.CheckpointsDir(dir, was.Dir), statedir.CheckpointsDir(dir, now.Dir)
	for _, left := range []string{statedir.LogStoreDir, statedir.BoltStoreFile} {
		if _, err := os.Stat(filepath.Join(from, left)); err == nil {
			return fmt.Errorf("%w: checkpoint.dir is another, and the pipeline's checkpoints are in %s: set it back, or move %s and %s from there to %s while the agent is stopped",
				errFinal, from, left, statedir.CatalogFile, to)
		}
	}
	return nil // they were moved
}
