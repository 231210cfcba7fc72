package agent

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/pipeline"
)

// smallOf is the form of a file in a pipeline's directory: version 1 is all that there is yet.
func smallOf(name string) record.Form { return record.Form{What: filepath.Base(name), Reads: 1} }

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
