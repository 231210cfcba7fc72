package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
)

// Formats of the small files in state_dir. They are JSON; a file without "format" has format 1, which is all that there is yet. A build that changes what a
// file means writes a higher one, so that an earlier build leaves it alone instead of reading what it knows of it and writing that back.
const (
	registryFormat = 1
	smallFormat    = 1 // of those in a pipeline's directory
)

// readSmall reads a file of a pipeline's directory; without one v stays as it is, and there is none.
func readSmall(fsys disk.FS, name string, v any) (there bool, err error) {
	b, err := disk.ReadFile(fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = pipeline.NewerJSON(b, filepath.Base(name), smallFormat)
	}
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	return true, err
}

// writeSmall replaces such a file. Durable on return.
func writeSmall(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return disk.WriteFileAtomic(disk.OS, name, append(b, '\n'))
}

// refuseNewer finds what a newer build wrote into the pipeline's directory, before anything in it is changed. What is not readable otherwise is told where it is needed.
func (a *attempt) refuseNewer() error {
	_, run := a.readLastRun()
	_, inherits := a.inheritance()
	_, loss := a.readLoss()
	_, _, order := a.agent.ordered(a.dir())
	for _, err := range []error{run, inherits, loss, order} {
		if isNewer(err) {
			return err
		}
	}
	return nil
}

// isNewer tells what a newer build wrote: it does not get better by trying again.
func isNewer(err error) bool {
	var n *pipeline.NewerError
	return errors.As(err, &n)
}

// finalIfNewer ends the pipeline's tries over it.
func finalIfNewer(err error) error {
	if isNewer(err) && !errors.Is(err, errFinal) {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	return err
}
