package record

import (
	"errors"

	"github.com/weirstream/weir/pipeline"
)

// IsNewer tells what a newer build wrote: it does not get better by trying again.
func IsNewer(err error) bool {
	var n *pipeline.NewerError
	return errors.As(err, &n)
}
