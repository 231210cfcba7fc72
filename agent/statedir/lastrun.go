package statedir

import (
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// LastRunFile in a pipeline's directory says which plan ran last, and whether it stopped with a savepoint. Checkpoints and outbox cannot tell: results that
// leave at once may reach upstream and never flash here, and their numbers do not say which plan made them.
const LastRunFile = "lastrun.json"

// LastRun is durable before a pipeline reads its first record, and again behind a savepoint that it stops with.
type LastRun struct {
	Plan    string `json:"plan"`              // hash, hex
	Stopped uint64 `json:"stopped,omitempty"` // checkpoint of the savepoint that it stopped with; 0: it may have run on
	// Position of that checkpoint: another store numbers its checkpoints anew. 0: an earlier build wrote this.
	Position uint64 `json:"position,omitempty"`
}

// StoodAt tells that the pipeline stopped with this savepoint and has not run since.
func (r *LastRun) StoodAt(h *savepoint.Head) bool {
	return r.Stopped != 0 && r.Stopped == h.Checkpoint && (r.Position == 0 || r.Position == h.Position)
}

// ReadLastRun gives the zero value when nothing is known.
func ReadLastRun(fsys disk.FS, dir string) (r LastRun, err error) {
	if _, err := record.Read(fsys, filepath.Join(dir, LastRunFile), Small(LastRunFile), &r); err != nil {
		return LastRun{}, fmt.Errorf("read which plan ran last: %w", err)
	}
	return r, nil
}

// WriteLastRun is durable on return.
func WriteLastRun(dir string, now LastRun) error {
	if err := record.Write(disk.OS, filepath.Join(dir, LastRunFile), now); err != nil {
		return fmt.Errorf("note which plan runs: %w", err)
	}
	return nil
}
