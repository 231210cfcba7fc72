package upgrade

import (
	"fmt"
	"slices"
)

// How often something is started before it is given up. A try is used durably before the start that it stands for.
const (
	// TriesNew are starts of the new program in probation, and again between probation and commit.
	TriesNew = 3
	// TriesOld are starts of the old program while it drains, or while it stands with S: a gateway that dies of draining drains no more.
	TriesOld = 4
	// TriesWrong are starts of a program that is to leave: then it stays, runs nothing and waits for help, rather than boot for ever.
	TriesWrong = 3

	triesMost = 16 // what a record may say
)

// Next is pure: the record behind an event. It is durable before anything is done that it tells of. An error of Asked is one of ErrKnown, ErrRejected, ErrRuns, ErrBusy, or says what the request lacks; any
// other error is a bug of the caller's. With an error the record is as it was. A record that is equal needs no write.
func Next(r Record, e Event) (Record, error) {
	n := clone(r)
	var err error
	switch e.Kind {
	case Asked:
		n, err = asked(r, e)
	case Started:
		started(&n, e)
	case Counted:
		counted(&n, e)
	case Stands:
		spare(&n, e)
	case Halted:
		halted(&n, e)
	case Replaced:
		replaced(&n, e)
	case Went:
		err = went(&n, e)
	default:
		err = advance(&n, e)
	}
	if err != nil {
		return r, err
	}
	if n.State != r.State {
		n.Began = e.Now
	}
	return n, nil
}

func clone(r Record) Record {
	r.Savings, r.Away, r.Rejected = slices.Clone(r.Savings), slices.Clone(r.Away), slices.Clone(r.Rejected)
	return r
}

func bug(r *Record, e Event) error {
	return fmt.Errorf("BUG: %s while the upgrade is %q", e.Kind, r.State)
}

// asked begins an upgrade. An attempt is known by its document's serial, never by what is installed: a program that was gone back from is not installed either.
func asked(r Record, e Event) (Record, error) {
	n := clone(e.Record)
	n.Format, n.Number, n.State, n.Began = recordFormat, r.Number+1, Accepted, e.Now
	n.Tries, n.Again, n.Minor, n.Savings, n.Offline, n.Away, n.Contact, n.Why, n.Cause, n.Unreverted = 0, false, 0, nil, false, nil, false, "", "", false
	n.Rejected, n.Floor, n.Rescue = slices.Clone(r.Rejected), r.Floor, e.Rescue
	n.Before = n.Active == r.Runs() && (r.State == Committed && n.Standby == r.Active || r.State == Failed && r.Before && n.Standby == r.Standby)
	switch {
	case !r.Resting() && !e.Rescue, r.Unreverted && !e.Rescue:
		return r, ErrBusy
	case n.Scope != "" && n.Scope == r.Scope && n.Serial <= r.Serial:
		return r, fmt.Errorf("%w: serial %d of %s", ErrKnown, n.Serial, n.Scope)
	case slices.Contains(r.Rejected, n.Target.SHA256) && !e.Again:
		return r, fmt.Errorf("%w: %s", ErrRejected, n.Target.SHA256)
	case n.Target.SHA256 == n.From.SHA256:
		return r, ErrRuns
	case e.Rescue && n.Active != Factory:
		return r, fmt.Errorf("a rescue begins from slot %q, not %q", Factory, n.Active)
	}
	if err := n.Check(); err != nil {
		return r, fmt.Errorf("ask for an upgrade: %w", err)
	}
	if e.Again {
		n.Rejected = slices.DeleteFunc(n.Rejected, func(d string) bool { return d == n.Target.SHA256 })
	}
	if e.Rescue && r.Holds() { // what the upgrade before has saved is still what the pipelines go on from
		n.Savings, n.Minor = slices.Clone(r.Savings), r.Minor
	}
	return n, nil
}

// advance is the way of an upgrade that goes well, forth and back.
func advance(n *Record, e Event) error {
	switch at := n.State; {
	case at == Accepted && e.Kind == Passed:
		n.State = Fetching
	case at == Fetching && e.Kind == Fetched:
		n.State, n.Before = Staged, false
	case at == Staged && e.Kind == Ready:
		n.State, n.Tries, n.Contact, n.Away = Draining, TriesOld, e.Contact, slices.Clone(e.Away)
	case at == Draining && e.Kind == Drained:
		return drained(n, e)
	case at == Saved && e.Kind == Uploaded:
		i := slices.IndexFunc(n.Savings, func(s Saving) bool { return s.Name == e.Name })
		if i < 0 {
			return fmt.Errorf("BUG: a savepoint of %q was uploaded, and there is none", e.Name)
		}
		n.Savings[i].Uploaded = true
	case at == Saved && e.Kind == Switching:
		if i := slices.IndexFunc(n.Savings, func(s Saving) bool { return !s.Uploaded }); n.UploadS && i >= 0 {
			return fmt.Errorf("BUG: the switch before the savepoint of %q was uploaded", n.Savings[i].Name)
		}
		n.State, n.Tries, n.Again = Switched, TriesNew, false
	case at == Probation && e.Kind == Passed:
		n.State, n.Tries, n.Offline = Committing, TriesNew, e.Offline
	case at == Committing && e.Kind == Confirmed:
		n.State, n.Tries, n.Rescue = Committed, 0, false
		n.Floor = max(n.Floor, n.Target.MinSecureVersion)
	case at == Rollback && (e.Kind == Reverted || e.Kind == GaveUp):
		n.Unreverted = e.Kind == GaveUp
		n.State = Restoring
		if n.Rescue { // the factory program restores nothing: S is owed to the next one
			n.State = RolledBack
		}
	case e.Kind == Reverted && n.Unreverted:
		n.Unreverted = false
	case at == Restoring && e.Kind == Restored:
		n.State = RolledBack
	default:
		return bug(n, e)
	}
	return nil
}

// drained: in a rescue nothing ran, and what was saved before is what the new program starts from.
func drained(n *Record, e Event) error {
	if n.Rescue && len(e.Savings) > 0 {
		return fmt.Errorf("BUG: a rescue has saved %q", e.Savings[0].Name)
	}
	if !n.Rescue {
		for _, s := range e.Savings {
			if s.Name == "" || !s.Live && (s.Savepoint == "" || !isDigest(s.SHA256)) {
				return fmt.Errorf("BUG: pipeline %q has no savepoint", s.Name)
			}
		}
		n.Savings = slices.Clone(e.Savings)
	}
	n.Minor = max(n.Minor, e.Minor) + 1
	n.State, n.Tries = Saved, TriesOld
	return nil
}

// counted uses up a try of the program that the helper is about to run. The old one has none here: it tells Started itself.
func counted(n *Record, e Event) {
	if e.Booted != n.Standby {
		return
	}
	switch n.State {
	case Switched, Probation, Committing:
		if n.Tries <= 0 {
			back(n, CauseTries, fmt.Sprintf("the new program was started %d times and %s", TriesNew, map[State]string{Switched: "never got to run", Probation: "did not pass its probation", Committing: "was not committed"}[n.State]), e.Now)
			return
		}
		n.Tries--
		anew(n, e.Now)
		if n.State == Switched {
			n.State = Probation
		}
	}
}

// started is where a start of the old program, or of the wrong one, changes something.
func started(n *Record, e Event) {
	anew(n, e.Now)
	old := e.Booted == n.Active && (!e.Rescue || n.Rescue)
	switch {
	case n.Before && e.Booted == n.Standby: // a boot loader fell back: the program before is the one to run from now on
		n.Active, n.Standby, n.From, n.Before = n.Standby, n.Active, Target{}, false
		if n.State != Failed {
			fail(n, CauseGate, fmt.Sprintf("slot %s does not start any more, and slot %s was to be written over", n.Standby, n.Active))
		}
	case e.Fenced && (n.State != Probation || !old): // it lets all stand as it is, and so does the record
		spare(n, e)
	case (n.State == Accepted || n.State == Fetching || n.State == Staged || n.State == Draining || n.State == Saved) && e.Booted == n.Standby:
		fail(n, CauseStage, "a slot runs that nobody has switched to")
	case n.State == Draining && old:
		if n.Tries--; n.Tries <= 0 {
			fail(n, CauseDrain, fmt.Sprintf("the agent ended %d times while its pipelines were stopped", TriesOld))
		}
	case n.State == Saved && old:
		if n.Tries--; n.Tries <= 0 {
			fail(n, CauseUpload, fmt.Sprintf("the agent ended %d times while it stood with its savepoints", TriesOld))
		}
	case n.State == Switched && old && n.Again:
		back(n, CauseSwitch, "the new program was activated twice, and the old one started both times", e.Now)
	case n.State == Switched && old:
		n.Again = true
	case n.State == Probation && old && e.Fenced: // a boot loader counts starts by itself, and this device has had none that could show anything
		back(n, CauseGate, "the old program was started in the probation of the new one, while another device had this one's place", e.Now)
	case n.State == Probation && old:
		back(n, CauseFallback, "the old program was started in the probation of the new one", e.Now)
	case n.State == Committing && old: // RULES 24
		if n.Tries--; n.Tries <= 0 {
			back(n, CauseTries, "the new program could not be started again to be committed", e.Now)
		}
	case (n.State == Rollback || n.State == Restoring || n.State == RolledBack || n.State == Failed) && e.Booted == n.Standby && n.Tries > 0:
		n.Tries--
	}
}

// spare gives the try back that a start on trial has used up: a fenced device starts as often as it likes, and nothing of it says anything against a program.
func spare(n *Record, e Event) {
	if e.Booted == n.Standby && (n.State == Probation || n.State == Committing) {
		n.Tries = min(n.Tries+1, TriesNew)
	}
}

// anew has the time of a state begin again in another boot: what passed in the one before is not known. Tries bound how often.
func anew(n *Record, now Moment) {
	if n.Began.Boot != now.Boot && !n.Resting() {
		n.Began = now
	}
}

// halted: before the switch nothing has changed, behind it the way back is the ordinary one, and what has passed is committed.
func halted(n *Record, e Event) {
	switch n.State {
	case Accepted, Fetching, Staged, Draining, Saved:
		fail(n, CauseHalted, e.Why)
	case Switched, Probation:
		back(n, CauseHalted, e.Why, e.Now)
	}
}

func went(n *Record, e Event) error {
	switch old := e.Booted == n.Active; {
	case n.State == Accepted || n.State == Fetching || n.State == Staged || n.State == Draining || n.State == Saved:
		fail(n, e.Cause, e.Why)
	case n.State == Switched || n.State == Probation || n.State == Committing && (old || e.Cause == CauseSpace): // nothing has left yet (RULES 24)
		back(n, e.Cause, e.Why, e.Now)
	default:
		return bug(n, e)
	}
	if e.Cause == "" || e.Why == "" {
		return fmt.Errorf("BUG: an upgrade that failed in %q and nobody says why", n.State)
	}
	return nil
}

// fail ends an upgrade whose program has never run. Pipelines that had stopped go on from where they stopped; when S had been made, under a minor incarnation of their own (RULES 27).
func fail(n *Record, c Cause, why string) {
	if n.State == Saved {
		n.Minor++
	}
	n.State, n.Tries, n.Cause, n.Why = Failed, TriesWrong, c, why
	reject(n)
}

// back begins the way back. The digest is rejected now, not at its end: no crash and no rescue in between may forget it.
func back(n *Record, c Cause, why string, now Moment) {
	n.State, n.Tries, n.Cause, n.Why, n.Began = Rollback, TriesWrong, c, why, now
	n.Minor++ // the old program's, above all that the new one has used
	reject(n)
}

func reject(n *Record) {
	d := n.Target.SHA256
	if !n.Cause.Rejects() || slices.Contains(n.Rejected, d) {
		return
	}
	n.Rejected = append(n.Rejected, d)
	n.Rejected = n.Rejected[max(0, len(n.Rejected)-rejectedMost):]
}
