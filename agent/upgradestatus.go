//go:build !nocentral

package agent

import (
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/upgrade"
)

// status is for others than run's goroutine; nil when there never was one.
func (u *upgrader) status() *api.UpgradeStatus {
	u.mu.Lock()
	rec, act, wait, broken, vain, stands := u.rec, u.act, u.wait, u.broken, u.vain, u.stands
	u.mu.Unlock()
	if broken == nil && rec.State == upgrade.Idle && act.Do != upgrade.Control && len(rec.Rejected) == 0 {
		return nil
	}
	s := &api.UpgradeStatus{Number: rec.Number, State: string(rec.State), From: rec.From.Version, To: rec.Target.Version, Release: rec.Target.Release, Slot: string(u.here.Booted),
		Tries: rec.Tries, Waits: wait, Why: rec.Why, Cause: string(rec.Cause), Offline: rec.Offline, Rejected: rec.Rejected, Held: u.heldBytes(), Vain: vain, Stands: stands, Repeated: u.repeated.Load()}
	if act.Do == upgrade.Control {
		s.NotUsable = act.Why
		if err := u.agent.unopened; err != nil {
			s.NotUsable += "; " + err.Error()
		}
		for _, err := range u.agent.unusable {
			s.NotUsable += "; " + err.Error()
		}
	}
	return s
}
