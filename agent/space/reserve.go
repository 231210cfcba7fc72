package space

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

// Reserve is what the journal leaves free of the disk of state_dir.
type Reserve struct {
	Bytes int64
	One   bool // planted by tests: all logs leave the same space free
}

func (r Reserve) of(share int64) int64 {
	if r.One {
		share = 1
	}
	return r.Bytes / share
}

// Results is what results and dead letters leave free, in bytes.
func (r Reserve) Results() int64 { return r.of(resultsShare) }

// Outbox takes the settings over.
func (r Reserve) Outbox() outbox.Config {
	c := outbox.Default()
	c.Log.ReserveBytes = r.Results()
	return c
}

// Checkpoints takes the settings over.
func (r Reserve) Checkpoints() *log.Config {
	c := snapshot.DefaultLogConfig()
	c.ReserveBytes = r.of(checkpointsShare)
	return &c
}
