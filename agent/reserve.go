package agent

import (
	"github.com/weirstream/weir/snapshot"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"
)

// A disk gets full from the intake down, so that what empties it can still be written: the journal leaves journal.reserve free, the results and dead letters that its records make
// half of it, and checkpoints, which let the journal go, a quarter. With one reserve for all a journal that came to it would hold itself full: no checkpoint could be written that lets
// it trim. What a full log takes all the same (a first checkpoint, cuts, marks) takes of the last quarter.
const (
	resultsShare     = 2
	checkpointsShare = 4
)

// reserve is what a part leaves free of the disk of state_dir, in bytes.
func (a *Agent) reserve(share int64) int64 {
	if a.options.oneReserve {
		share = 1
	}
	return a.config.Journal.ReserveBytes / share
}

// outboxConfig takes the settings over.
func (a *Agent) outboxConfig() outbox.Config {
	c := outbox.Default()
	c.Log.ReserveBytes = a.reserve(resultsShare)
	return c
}

// checkpointLogConfig takes the settings over.
func (a *Agent) checkpointLogConfig() *log.Config {
	c := snapshot.DefaultLogConfig()
	c.ReserveBytes = a.reserve(checkpointsShare)
	return &c
}
