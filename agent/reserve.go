package agent

import (
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/outbox"

	"github.com/weirstream/weir/snapshot"
)

// A disk gets full from the intake down, so that what empties it can still be written: the journal leaves journal.reserve free, the results and dead letters that its records make
// half of it, and checkpoints, which let the journal go, a quarter. With one reserve for all a journal that came to it would hold itself full: no checkpoint could be written that lets
// it trim. What a full log takes all the same (a first checkpoint, cuts, marks) takes of the last quarter.
const (
	resultsShare     = 2
	checkpointsShare = 4
)

// reserveOf is what a part leaves free of the disk of state_dir, in bytes.
func reserveOf(cfg *config.Config, share int64) int64 { return cfg.Journal.ReserveBytes / share }

// outboxConfig takes the settings over.
func outboxConfig(cfg *config.Config) outbox.Config {
	c := outbox.Default()
	c.Log.ReserveBytes = reserveOf(cfg, resultsShare)
	return c
}

// checkpointLogConfig takes the settings over.
func checkpointLogConfig(cfg *config.Config) *log.Config {
	c := snapshot.DefaultLogConfig()
	c.ReserveBytes = reserveOf(cfg, checkpointsShare)
	return &c
}
