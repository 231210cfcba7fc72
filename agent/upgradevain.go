//go:build !nocentral

package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/weirstream/weir/agent/upgrade"
)

// inVain gives a switch up that was tried often enough: the pipelines stand meanwhile. Nothing is said against the new program, which has not run, or has passed its probation and let nothing leave yet. A request for a reboot that nobody
// takes is one try, of a minute.
func (u *upgrader) inVain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return err
	}
	if u.tally["switch"]++; u.tally["switch"] < upgrade.AskedOften {
		return err
	}
	return unfitFor(upgrade.CauseStage, "%w", err)
}

// inARow is how often the act under way has failed. The zero value: never.
type inARow struct {
	times int
	until time.Time // it is not tried before, if it is one that lasts
}

// next is pure: the row behind one more try.
func (r inARow) next(err error, now time.Time) inARow {
	if err == nil || errors.Is(err, errWaits) {
		return inARow{}
	}
	return inARow{r.times + 1, now.Add(upgrade.AskAgain(r.times + 1))}
}

// lasts tells that an act is asked of the backend for as long as it takes: no state is better than the one that it would end.
func lasts(a upgrade.Act) bool {
	switch a.Do {
	case upgrade.Commit, upgrade.Leave:
		return true
	case upgrade.Rest, upgrade.Control: // what is done besides
		return a.Revert || a.Leave
	}
	return false
}

// rests tells that the backend, which has refused what there is no way around, is left alone for now.
func (u *upgrader) rests() bool { return lasts(u.act) && time.Now().Before(u.again.until) }

// tells has the status say that an act is tried in vain.
func (u *upgrader) tells(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.vain, u.stands = u.again.times, ""
	if u.vain < upgrade.AskedOften {
		return
	}
	if u.stands = err.Error(); lasts(u.act) {
		u.stands += fmt.Sprintf("; it is tried again, every %d minutes in the end", int(upgrade.LeaveAgain.Minutes()))
	}
}
