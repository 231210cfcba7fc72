package record

import (
	"errors"
	"path/filepath"

	"github.com/weirstream/weir/pipeline"
)

// First is the form of a file in a pipeline's directory: version 1 is all that there is yet.
func First(name string) Form { return Form{What: filepath.Base(name), Reads: 1} }

// IsNewer tells what a newer build wrote: it does not get better by trying again.
func IsNewer(err error) bool {
	var n *pipeline.NewerError
	return errors.As(err, &n)
}
