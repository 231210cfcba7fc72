package agent

import (
	"bytes"
	"encoding/hex"

	"github.com/weirstream/weir/agent/record"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/snapshot/savepoint"
)

func (a *attempt) readLastRun() (statedir.LastRun, error) {
	return statedir.ReadLastRun(a.agent.fs, a.dir())
}

// noteRun says that the plan runs from here on, or with stopped not 0, that it has stopped at this position. Repeating it is harmless.
func (a *attempt) noteRun(stopped, position uint64) error {
	now := statedir.LastRun{Plan: hex.EncodeToString(a.graph.Hash[:]), Stopped: stopped, Position: position}
	r, err := a.readLastRun()
	if err == nil && r == now || record.IsNewer(err) { // one that is not readable is replaced
		return err
	}
	return statedir.WriteLastRun(a.dir(), now)
}

// since tells what came behind a savepoint: nothing (stood), or only what its own plan made. When that is not known it is neither.
func (a *attempt) since(h *savepoint.Head) (stood, own bool, err error) {
	r, err := a.readLastRun()
	if err != nil {
		return false, false, err
	}
	if !bytes.Equal(h.UUID, a.id[:]) { // of another pipeline, whose results went elsewhere
		return r == statedir.LastRun{} && !a.begun(), false, nil
	}
	return r.StoodAt(h), r.Plan == hex.EncodeToString(h.PlanHash), nil
}
