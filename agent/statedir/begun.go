package statedir

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/store/disk"
)

// BegunFile in the pipeline's directory says that it once had a checkpoint, and where: a store that was removed, or whose disk is not mounted, is
// then not taken for that of a new pipeline, and one that was left behind not for the one that is used.
const BegunFile = "begun"

// Begun is where a pipeline's checkpoints are. Both empty: an earlier build, which did not tell, has written it.
type Begun struct {
	Store string `json:"store"`         // checkpoint.store
	Dir   string `json:"dir,omitempty"` // checkpoint.dir
}

// BegunOf is what a config says of it.
func BegunOf(c *config.Checkpoint) Begun {
	b := Begun{Store: c.Store, Dir: c.Dir}
	if b.Store == "" {
		b.Store = "log"
	}
	return b
}

// ReadBegun reads it of the directory of a pipeline: the zero value when nothing is known.
func ReadBegun(fsys disk.FS, dir string) (b Begun, err error) {
	data, err := disk.ReadFile(fsys, filepath.Join(dir, BegunFile))
	if err != nil || len(data) == 0 {
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		return Begun{}, err
	}
	if err := record.Decode(data, Small(BegunFile), &b); err != nil {
		return Begun{}, err
	}
	return b, nil
}

// The parts of a checkpoint store in its directory.
const (
	LogStoreDir   = "checkpoints"
	BoltStoreFile = "checkpoints.db"
	CatalogFile   = "catalog.db"
)

// CheckpointsDir is where the checkpoints are of the pipeline whose directory is dir: there, or in its directory below what checkpoint.dir says.
func CheckpointsDir(dir, setting string) string {
	if setting == "" {
		return dir
	}
	return filepath.Join(setting, filepath.Base(dir))
}
