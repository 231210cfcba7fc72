package agent

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/store/disk"
)

// begunFile in the pipeline's directory says that it once had a checkpoint, and where: a store that was removed, or whose disk is not mounted, is
// then not taken for that of a new pipeline, and one that was left behind not for the one that is used.
const begunFile = "begun"

// begun is where a pipeline's checkpoints are. Both empty: an earlier build, which did not tell, has written it.
type begun struct {
	Store string `json:"store"`         // checkpoint.store
	Dir   string `json:"dir,omitempty"` // checkpoint.dir
}

func begunOf(c *config.Checkpoint) begun {
	b := begun{Store: c.Store, Dir: c.Dir}
	if b.Store == "" {
		b.Store = "log"
	}
	return b
}

func (a *attempt) begunPath() string { return filepath.Join(a.dir(), begunFile) }

func (a *attempt) begun() bool {
	_, err := os.Stat(a.begunPath())
	return err == nil
}

// begin notes that there is a checkpoint, and where. Durable before the first record is read.
func (a *attempt) begin() error {
	now := begunOf(&a.spec.Checkpoint)
	was, err := readBegun(a.agent.fs, a.dir())
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

// readBegun gives the zero value when nothing is known.
func readBegun(fsys disk.FS, dir string) (b begun, err error) {
	data, err := disk.ReadFile(fsys, filepath.Join(dir, begunFile))
	if err != nil || len(data) == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return begun{}, err
	}
	if err := record.Decode(data, statedir.Small(begunFile), &b); err != nil {
		return begun{}, err
	}
	return b, nil
}

// elsewhere refuses a pipeline whose checkpoints are in another store than the config names, before that store is opened: what lies there is nothing, or of the
// time before the pipeline left it, and to go on from either would lose what came since. A savepoint that is to be restored brings the state along.
func (a *Agent) elsewhere(spec *config.Pipeline, dir string) error {
	was, err := readBegun(a.fs, dir)
	if record.IsNewer(err) {
		return err
	}
	now := begunOf(&spec.Checkpoint)
	if err != nil || was == (begun{}) || was == now { // what is not readable tells nothing
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
	from, to := checkpointsDir(dir, was.Dir), checkpointsDir(dir, now.Dir)
	for _, left := range []string{logStoreDir, boltStoreFile} {
		if _, err := os.Stat(filepath.Join(from, left)); err == nil {
			return fmt.Errorf("%w: checkpoint.dir is another, and the pipeline's checkpoints are in %s: set it back, or move %s and %s from there to %s while the agent is stopped",
				errFinal, from, left, catalogFile, to)
		}
	}
	return nil // they were moved
}

// The parts of a checkpoint store in its directory.
const (
	logStoreDir   = "checkpoints"
	boltStoreFile = "checkpoints.db"
	catalogFile   = "catalog.db"
)

// checkpointsDir is where the checkpoints are of the pipeline whose directory is dir: there, or in its directory below what checkpoint.dir says.
func checkpointsDir(dir, setting string) string {
	if setting == "" {
		return dir
	}
	return filepath.Join(setting, filepath.Base(dir))
}
