package agent

import (
	"fmt"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
)

// journalConfig takes the settings over.
func journalConfig(cfg *config.Config) log.Config {
	c, j := log.Default(), cfg.Journal
	c.MaxBytes, c.ReserveBytes, c.Linger, c.SegmentBytes, c.Compress = j.MaxBytes, j.ReserveBytes, j.Linger, j.SegmentBytes, j.Compress
	if j.UnsyncedBytes > 0 {
		c.MaxUnsynced = int(j.UnsyncedBytes)
	}
	return c
}

// openJournal recovers the journal; the clock goes on from its last stamp.
func (a *Agent) openJournal(dir string, after pipeline.Position) error {
	c := journalConfig(a.config)
	jr, recovery, err := journal.Open(journal.Options{FS: a.fs, Dir: dir, Config: c, Stamp: a.late.stamp, After: after, Logger: a.log})
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	a.journal = jr
	a.openClock(jr.LastStamp(), recovery.LastTrusted)
	a.log.Info("journal recovered", "first", uint64(jr.First()), "last", uint64(jr.Last()), "recovery", recovery)
	jr.OnDurable(func(_ pipeline.Position, err error) {
		if err != nil {
			select {
			case a.failed <- err:
			default:
			}
		}
	})
	return nil
}
