package agent

import (
	"errors"
	"fmt"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/restore"
)

// refuseNewer finds what a newer build wrote into the pipeline's directory, before anything in it is changed. What is not readable otherwise is told where it is needed.
func (a *attempt) refuseNewer() error {
	_, run := a.readLastRun()
	_, inherits := a.inheritance()
	_, loss := a.readLoss()
	_, _, order := restore.Ordered(a.agent.fs, a.dir())
	for _, err := range []error{run, inherits, loss, order} {
		if record.IsNewer(err) {
			return err
		}
	}
	return nil
}

// finalIfNewer ends the pipeline's tries over it.
func finalIfNewer(err error) error {
	if record.IsNewer(err) && !errors.Is(err, errFinal) {
		return fmt.Errorf("%w: %w", errFinal, err)
	}
	return err
}
