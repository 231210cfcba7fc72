package agent

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/weirstream/weir/pipeline"
)

// Formats of the small files in state_dir. They are JSON; a file without "format" has format 1, which is all that there is yet. A build that changes what a
// file means writes a higher one, so that an earlier build leaves it alone instead of reading what it knows of it and writing that back.
const (
	registryFormat = 1
	lastRunFormat  = 1
	restoreFormat  = 1
)

// checkFormat refuses a file of a newer build. What is no JSON is left to whoever reads the rest.
func checkFormat(b []byte, what string, reads uint64) error {
	var f struct {
		Format uint64 `json:"format"`
	}
	if json.Unmarshal(b, &f) == nil && f.Format > reads {
		return pipeline.Newer(nil, what, f.Format, reads)
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
