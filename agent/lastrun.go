package agent

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path/filepath"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot/savepoint"
	"github.com/weirstream/weir/store/disk"
)

// lastRunFile in a pipeline's directory says which plan ran last, and whether it stopped with a savepoint. Checkpoints and outbox cannot tell: results that
// leave at once may reach upstream and never flash here, and their numbers do not say which plan made them.
const lastRunFile = "lastrun.json"

// lastRun is durable before a pipeline reads its first record, and again behind a savepoint that it stops with.
type lastRun struct {
	Plan    string `json:"plan"`              // hash, hex
	Stopped uint64 `json:"stopped,omitempty"` // checkpoint of the savepoint that it stopped with; 0: it may have run on
	// Position of that checkpoint: another store numbers its checkpoints anew. 0: an earlier build wrote this.
	Position uint64 `json:"position,omitempty"`
}

// stoodAt tells that the pipeline stopped with this savepoint and has not run since.
func (r *lastRun) stoodAt(h *savepoint.Head) bool {
	return r.Stopped != 0 && r.Stopped == h.Checkpoint && (r.Position == 0 || r.Position == h.Position)
}

// readLastRun gives the zero value when nothing is known.
func (a *attempt) readLastRun() (r lastRun, err error) {
	if _, err := record.Read(a.agent.fs, filepath.Join(a.dir(), lastRunFile), statedir.Small(lastRunFile), &r); err != nil {
		return lastRun{}, fmt.Errorf("read which plan ran last: %w", err)
	}
	return r, nil
}

// noteRun says that the plan runs from here on, or with stopped not 0, that it has stopped at this position. Repeating it is harmless.
func (a *attempt) noteRun(stopped, position uint64) error {
	now := lastRun{Plan: hex.EncodeToString(a.graph.Hash[:]), Stopped: stopped, Position: position}
	r, err := a.readLastRun()
	if err == nil && r == now || record.IsNewer(err) { // one that is not readable is replaced
		return err
	}
	return writeLastRun(a.dir(), now)
}

func writeLastRun(dir string, now lastRun) error {
	if err := record.Write(disk.OS, filepath.Join(dir, lastRunFile), now); err != nil {
		return fmt.Errorf("note which plan runs: %w", err)
	}
	return nil
}

// since tells what came behind a savepoint: nothing (stood), or only what its own plan made. When that is not known it is neither.
func (a *attempt) since(h *savepoint.Head) (stood, own bool, err error) {
	r, err := a.readLastRun()
	if err != nil {
		return false, false, err
	}
	if !bytes.Equal(h.UUID, a.id[:]) { // of another pipeline, whose results went elsewhere
		return r == lastRun{} && !a.begun(), false, nil
	}
	return r.stoodAt(h), r.Plan == hex.EncodeToString(h.PlanHash), nil
}
