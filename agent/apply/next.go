package apply

import (
	"fmt"
	"slices"
)

// EventKind says what happened.
type EventKind string

// The events.
const (
	Asked    EventKind = "asked"    // Event.Record has the new apply's configs and changes
	Saved    EventKind = "saved"    // Event.Change has its savepoint
	Switched EventKind = "switched" // all savepoints are there
	Passed   EventKind = "passed"   // the probation
	Failed   EventKind = "failed"   // Event.Why
	Started  EventKind = "started"  // the agent, again
	Dropped  EventKind = "dropped"  // what the new plans made, and the restores are ordered
	Restored EventKind = "restored" // the old plans run, and stand on a checkpoint
	Adopted  EventKind = "adopted"  // a start runs a file that the operator changed since: Event.Record.New
)

// Event is what Next is told.
type Event struct {
	Kind   EventKind
	Why    string
	Record Record
	Change Change
}

// RestartsInProbation is the restart of the agent within a probation that ends it, whatever came before it: a stop, a kill, a power cut. A plan that takes the agent with
// it is given up thereby.
const RestartsInProbation = 3

// interrupted is why an apply that ended while savepoints were made was given up: that says nothing against the config.
const interrupted = "the agent ended while the savepoints were made"

// Next is pure: the record behind an event. An error is a bug of the caller's: r is what holds then.
func Next(r Record, e Event) (Record, error) {
	n := r
	n.Changes = slices.Clone(r.Changes)
	switch {
	case e.Kind == Asked && r.Resting():
		n = e.Record
		n.Number, n.State, n.Refused, n.Why, n.Tries = r.Number+1, Saving, "", "", 0
	case e.Kind == Adopted && r.Resting():
		n.State, n.Old, n.New, n.File = Committed, r.InForce(), e.Record.New, e.Record.New
		n.Changes = nil
	case e.Kind == Started && r.Resting():
	case r.State == Saving && e.Kind == Saved:
		i := slices.IndexFunc(n.Changes, func(c Change) bool { return c.Name == e.Change.Name })
		if i < 0 || e.Change.Savepoint == "" {
			return r, fmt.Errorf("BUG: a savepoint of %q, which this apply does not stop", e.Change.Name)
		}
		n.Changes[i] = e.Change
	case r.State == Saving && e.Kind == Switched:
		for _, c := range n.Changes {
			if c.Kind == Changed && c.Savepoint == "" {
				return r, fmt.Errorf("BUG: pipeline %s has no savepoint", c.Name)
			}
		}
		n.State, n.Tries = Probation, RestartsInProbation
	case r.State == Saving && e.Kind == Failed:
		n.State, n.Why = RolledBack, e.Why
	case r.State == Saving && e.Kind == Started:
		n.State, n.Why = RolledBack, interrupted
	case r.State == Probation && e.Kind == Passed:
		n.State, n.Tries = Committed, 0
	case r.State == Probation && e.Kind == Failed:
		n.State, n.Why, n.Refused, n.Tries = Returning, e.Why, r.New, 0
	case r.State == Probation && e.Kind == Started:
		if n.Tries--; n.Tries <= 0 {
			n.State, n.Refused, n.Tries = Returning, r.New, 0
			n.Why = fmt.Sprintf("the agent was restarted %d times within the probation", RestartsInProbation)
		}
	case r.State == Returning && e.Kind == Dropped:
		n.State = Restoring
	case r.State == Restoring && e.Kind == Restored:
		n.State = RolledBack
	case (r.State == Returning || r.State == Restoring) && e.Kind == Started:
	default:
		return r, fmt.Errorf("BUG: %s while the apply is %q", e.Kind, r.State)
	}
	return n, nil
}

// Runs is which config a start of the agent runs.
type Runs int

// The choices.
const (
	RunFile  Runs = iota // the file, which is what is in force, or nothing was ever applied
	RunKept              // what is in force, as it was kept; the file is another
	RunAdopt             // the file: the operator changed it since, and it is in force from now on
)

// Choose is pure. file is the digest of the config file as it is now; r is behind Started.
func Choose(r *Record, file string) (runs Runs, why string) {
	inForce := r.InForce()
	switch {
	case r.State == None:
		return RunFile, ""
	case !r.Resting():
		return RunKept, "an apply is under way"
	case file == inForce:
		return RunFile, ""
	case file == r.Refused:
		return RunKept, "the file was applied and gone back from: " + r.Why
	case file == r.File && r.State == RolledBack:
		return RunKept, "applying the file was given up: " + r.Why
	case file == r.File:
		return RunKept, "another config was applied since the file was changed"
	}
	return RunAdopt, ""
}
