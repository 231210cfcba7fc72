package upgrade

import (
	"fmt"
	"time"
)

// How long things may take. A fetch has no limit: a slow link is no fault.
const (
	StageLimit  = 30 * time.Minute // self-test and backend.Stage, without the wait for a window
	DrainLimit  = 120 * time.Second
	UploadLimit = 600 * time.Second
	// LeaveAgain is between two tries of a program that was started too often and is not the one to run: a machine that starts it for ever is not to wear out, and may be mended from afar meanwhile.
	LeaveAgain     = 10 * time.Minute
	ProbationLimit = 30 * time.Minute // beyond what the policy has the new program be on trial at least
)

// Overdue is pure: the event that ends a state which has lasted too long. Moments of two boots cannot be compared: Started and Counted have such a state begin again, and its tries bound that.
func Overdue(r Record, now Moment) (Event, bool) {
	var limit time.Duration
	e := Event{Kind: Went, Now: now}
	switch r.State {
	case Draining:
		limit, e.Cause, e.Why = DrainLimit, CauseDrain, "the pipelines did not stop behind their savepoints"
	case Saved:
		limit, e.Cause, e.Why = UploadLimit, CauseUpload, "the savepoints, which have to be at the central store before the switch, were not uploaded"
	case Probation:
		limit, e.Cause, e.Why = ProbationLimit+time.Duration(r.Probation)*time.Millisecond, CauseProbation, "the new program did not pass its probation"
	default:
		return Event{}, false
	}
	if r.Began.Boot != now.Boot || time.Duration(now.Ns-r.Began.Ns) < limit {
		return Event{}, false
	}
	e.Why += fmt.Sprintf(" within %s", limit)
	return e, true
}
