//go:build !nocentral

package agent

import (
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/agent/upgrade"
	"github.com/weirstream/weir/pipeline"
)

func (u *upgrader) saving(name string) *upgrade.Saving {
	for i := range u.rec.Savings {
		if u.rec.Savings[i].Name == name {
			return &u.rec.Savings[i]
		}
	}
	return nil
}

// heldBack is what holds the results of a run, nil when they may leave; live: those of its sinks that say so may.
func savedOfSaving(s *upgrade.Saving) saved {
	out := saved{Name: s.Name, UUID: s.UUID, Plan: s.Plan, Savepoint: s.Savepoint, SHA256: s.SHA256, Checkpoint: s.Checkpoint, Position: s.Position}
	for _, e := range s.Ends {
		out.Ends = append(out.Ends, pipeline.SinkMark{UID: e.UID, Seq: e.Seq})
	}
	return out
}

// backTo is where pipelines go on from when the program is gone back from: not those whose results have left.
func (u *upgrader) backTo() (list []saved) {
	for i := range u.rec.Savings {
		if s := &u.rec.Savings[i]; !s.Live && s.Savepoint != "" {
			list = append(list, savedOfSaving(s))
		}
	}
	return list
}

const upgradeHold = "upgrade/"

// hold keeps the journal from letting go of what S needs (RULES 22). A repeat is harmless.
func (u *upgrader) hold() {
	if u.rec.Holds() {
		for _, s := range u.backTo() {
			u.agent.retain(upgradeHold, s)
		}
	}
}

func (u *upgrader) unhold() {
	for _, s := range u.rec.Savings {
		u.agent.journal.Release(upgradeHold + s.UUID)
	}
}

// highest is the highest position that may be gone back to.
func (u *upgrader) highest() (high pipeline.Position) {
	if u.rec.Holds() {
		for _, s := range u.rec.Savings {
			high = max(high, pipeline.Position(s.Position))
		}
	}
	return high
}

// uncommitted is where the pipelines stood whose program is on trial, or is gone back from: what was made behind it does not count (handover).
func (u *upgrader) uncommitted() (map[string]saved, error) {
	rec := u.record()
	list := map[string]saved{}
	switch rec.State {
	case upgrade.Switched, upgrade.Probation, upgrade.Committing, upgrade.Rollback, upgrade.Restoring:
	default:
		return list, nil
	}
	for i := range rec.Savings {
		s := &rec.Savings[i]
		if s.Live || s.Savepoint == "" {
			continue
		}
		if rec.State == upgrade.Restoring {
			if pending, err := restore.Pending(u.agent.pipelineDir(s.UUID)); err != nil || !pending {
				if err != nil {
					return nil, err
				}
				continue
			}
		}
		list[s.Name] = savedOfSaving(s)
	}
	return list, nil
}
