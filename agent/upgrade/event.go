package upgrade

import "errors"

// Kind says what happened.
type Kind string

// The events. Who tells them: the agent, but Counted, which the helper tells.
const (
	Asked     Kind = "asked"     // a verified document: Event.Record has what it asks for. Event.Rescue: no slot could be verified
	Passed    Kind = "passed"    // the gates: in Accepted those of the beginning, in Probation those of the commit (Event.Offline)
	Fetched   Kind = "fetched"   // the whole artifact is on flash, and its digest is the manifest's
	Ready     Kind = "ready"     // its self-test passed, it is staged, and it may be switched to now: Event.Contact, Event.Away
	Drained   Kind = "drained"   // every pipeline has stopped behind S: Event.Savings, Event.Minor. Nothing runs when nothing ran: no Savings
	Uploaded  Kind = "uploaded"  // S of Event.Name
	Switching Kind = "switching" // nothing is left to do before the switch
	Counted   Kind = "counted"   // the helper is about to run the program of slot Event.Booted
	Started   Kind = "started"   // the agent has started, from slot Event.Booted; once in a start, before anything is done
	Confirmed Kind = "confirmed" // backend.Commit was done
	Reverted  Kind = "reverted"  // backend.Revert was done
	GaveUp    Kind = "gave up"   // backend.Revert fails, again and again: Event.Why. The old program runs, and goes on
	Restored  Kind = "restored"  // the old program's pipelines run, each from a checkpoint that stands on S
	Stands    Kind = "stands"    // another device has taken this one's place while it is on trial, from slot Event.Booted: this start can show nothing
	Went      Kind = "failed"    // it cannot go on: Event.Cause, Event.Why. In Committing the old program tells it (Event.Booted), which cannot have the new one started, or the new one whose start finds a full disk
	Halted    Kind = "halted"    // a verified document halts it
)

// Cause says, in one word, why an upgrade ended without being committed.
type Cause string

// The causes. Those of the first group say nothing against the program: another document may ask for it again. Those of the second put its digest on the list of the rejected.
const (
	CauseHalted  Cause = "halted"
	CauseExpired Cause = "expired" // nobody begins behind its time
	CauseGate    Cause = "gate"    // this gateway cannot take it, or not now
	CauseSpace   Cause = "space"
	CauseFetch   Cause = "fetch" // pieces cannot be had
	CauseStage   Cause = "stage" // the backend could not write it
	CauseDrain   Cause = "drain" // pipelines did not stop, or S could not be written
	CauseUpload  Cause = "upload"

	CauseArtifact  Cause = "artifact"  // its digest is wrong though each piece is right, or its self-test fails
	CauseSwitch    Cause = "switch"    // it was activated twice, and the old one started each time
	CauseProbation Cause = "probation" // gates of the commit, a cap, the time
	CauseTries     Cause = "tries"     // every start was used up
	CauseFallback  Cause = "fallback"  // the old program was started in probation, by a boot loader or since the new one's slot is damaged
)

// Rejects tells that the program itself was at fault.
func (c Cause) Rejects() bool {
	switch c {
	case CauseArtifact, CauseSwitch, CauseProbation, CauseTries, CauseFallback:
		return true
	}
	return false
}

// Event is what Next is told: what an act found.
type Event struct {
	Kind    Kind
	Now     Moment
	Why     string
	Cause   Cause
	Booted  Slot
	Rescue  bool
	Again   bool   // Asked: the artifact may have failed here before: whoever asks takes that back
	Fenced  bool   // Started: another device has taken this one's place, so that it does nothing
	Record  Record // Asked: Scope to Standby, and the policy's members; all else is Next's
	Savings []Saving
	Minor   uint32 // Drained: under which the pipelines have run
	Name    string
	Contact bool
	Away    []string
	Offline bool
}

// Why Next takes no Asked. The record is as it was; the document is answered with the error's text.
var (
	// ErrKnown: a document of this scope with this serial, or a higher one, was acted on. What came of it is in the record, or was reported.
	ErrKnown = errors.New("the document was acted on before")
	// ErrRejected: the artifact has failed here.
	ErrRejected = errors.New("the artifact has failed on this gateway and is not tried again")
	// ErrRuns: the artifact is what runs.
	ErrRuns = errors.New("the artifact is what runs")
	// ErrBusy: an upgrade is under way.
	ErrBusy = errors.New("an upgrade is under way")
)
