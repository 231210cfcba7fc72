package agent

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/space"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
)

// noJournalDir is never made: an empty journal in memory is named so.
const noJournalDir = "no-journal"

// openJournal recovers the journal; the clock goes on from its last stamp. A process that connects no broker and runs no pipeline has no use for it: one that does not open is left as it is, and an empty one in memory stands in.
func (a *Agent) openJournal(dir string, after pipeline.Position) error {
	c := space.Journal(a.config)
	o := journal.Options{FS: a.fs, Dir: dir, Config: c, Stamp: a.late.stamp, After: after, Logger: a.log}
	jr, recovery, err := journal.Open(o)
	if err != nil && a.upgrader.controls() && a.runs() {
		a.log.Error("the journal does not open; nothing is read or written here, and the rescue goes on without it", "error", err)
		a.unopened = fmt.Errorf("open journal: %w", err)
		o.FS, o.Dir = disk.NewOverlay(a.fs), filepath.Join(filepath.Dir(dir), noJournalDir)
		jr, recovery, err = journal.Open(o)
	}
	if err != nil {
		return fmt.Errorf("open journal: %w", err)
	}
	a.journal = jr
	a.openClock(jr.LastStamp(), recovery.LastTrusted)
	a.log.Info("journal recovered", "first", uint64(jr.First()), "last", uint64(jr.Last()), "segments", recovery.Segments, "records", recovery.Records, "lost", len(recovery.Lost), "torn_bytes", recovery.TornBytes, "rewritten_bytes", recovery.RewrittenBytes)
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
