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
	LeaveAgain = 10 * time.Minute
	// AskedOften is how often in a process the backend is asked for something before that counts as in vain: pipelines stand meanwhile, or results wait.
	AskedOften = 5
	// AskedAgain is between two of these.
	AskedAgain     = 2 * time.Second
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

// AskAgain is pure: how long a backend is left alone that has refused something that there is no way around, for the n-th time in a row. It falls to LeaveAgain: a boot loader keeps its state in flash that wears out.
func AskAgain(n int) time.Duration {
	wait := AskedAgain
	for ; n > AskedOften && wait < LeaveAgain; n-- {
		wait *= 2
	}
	return min(wait, LeaveAgain)
}
