//go:build !nocentral

package agent

import (
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
)

// hangs tells that an upgrade has lasted longer than it may and nobody ends it: the goroutine that is to does not come to it. On trial that is the new program's own, which may be broken in any way: the watchdog uses its starts up.
func (u *upgrader) hangs() error {
	u.mu.Lock()
	rec, control := u.rec, u.act.Do == upgrade.Control
	u.mu.Unlock()
	if control || u.agent.fence.err() != nil { // it stands as it is
		return nil
	}
	at := now()
	at.Ns -= int64(stuckFor())
	e, over := upgrade.Overdue(rec, at)
	if over || rec.State == upgrade.Probation && u.held != nil && trialOver(time.Since(u.watched)-stuckFor()) {
		return fmt.Errorf("the upgrade hangs while it is %s: %w: %s", rec.State, errStuck, e.Why)
	}
	return nil
}
