package upgrade

// Situation is what a process knows of itself.
type Situation struct {
	Booted Slot // which slot it runs from: asked of the backend, not of the record
	Rescue bool // the helper has linked Factory since no slot could be verified
}

// Running is what becomes of the pipelines.
type Running string

// The ways of running.
const (
	RunAll  Running = "all"  // as ever
	RunHeld Running = "held" // every result is held back
	RunNone Running = "none"
)

// Do is what a process is to do besides.
type Do string

// The acts. Each can be done again. Behind it is the event that ends it; any of them up to Upload may end in Went.
const (
	Rest     Do = "rest"     // wait for a document
	Gate     Do = "gate"     // judge the gates of the beginning; Passed
	Fetch    Do = "fetch"    // Fetched
	Stage    Do = "stage"    // self-test, backend.Stage, wait for window and power; Ready
	Drain    Do = "drain"    // stop every pipeline behind a savepoint; Drained
	Upload   Do = "upload"   // S, if UploadS says so: Uploaded each; then Switching
	Activate Do = "activate" // backend.Activate, then backend.Restart: nothing else
	Watch    Do = "watch"    // start the pipelines from S, then judge the gates of the commit; Passed or Went
	Commit   Do = "commit"   // backend.Commit; Confirmed. Only then results are let go
	Revert   Do = "revert"   // backend.Revert; Reverted, or GaveUp
	Leave    Do = "leave"    // backend.Revert, then backend.Restart: this program is not the one to run
	Restore  Do = "restore"  // drop what the new program made, restore S; Restored
	Control  Do = "control"  // nothing but the channel: help comes from there
)

// Act is what a process is to do now.
type Act struct {
	Run Running
	Do  Do
	// Revert besides, until it is done: the pipelines do not wait for it (Record.Unreverted).
	Revert bool
	// Leave besides, now and then and no more often than LeaveAgain: the boot loader may have come to its senses.
	Leave bool
	// Why says in a sentence what is not as it should be; "": all is well.
	Why string
}

// Decide is pure: what a process is to do, at its start (behind Started) and behind each Next.
func Decide(r Record, s Situation) Act {
	a := decide(&r, s)
	if r.Unreverted && s.Booted == r.Active && a.Do != Revert {
		a.Revert = true
	}
	return a
}

func decide(r *Record, s Situation) Act {
	switch {
	case s.Rescue && !r.Rescue:
		return Act{Run: RunNone, Do: Control, Why: "no slot holds a program that can be verified: this is the one that the system was installed with, and may not be able to read the state; weir upgrade, the fleet or a package installs another one"}
	case r.State == Idle:
		return Act{Run: RunAll, Do: Rest}
	case s.Booted == r.Standby:
		return decideNew(r)
	case s.Booted == r.Active:
		return decideOld(r)
	}
	if r.Resting() {
		return Act{Run: RunAll, Do: Rest, Why: "this program runs from slot " + string(s.Booted) + ", which the last upgrade does not know"}
	}
	return Act{Run: RunNone, Do: Control, Why: "an upgrade is under way, and this program runs from slot " + string(s.Booted) + ", which it does not know"}
}

func decideNew(r *Record) Act {
	switch r.State {
	case Switched: // whoever linked it has not counted the start: it may be one too many
		return Act{Run: RunNone, Do: Leave, Why: "this start was not counted"}
	case Probation:
		return Act{Run: RunHeld, Do: Watch}
	case Committing:
		return Act{Run: RunHeld, Do: Commit}
	case Committed:
		return Act{Run: RunAll, Do: Rest}
	case Rollback, Restoring, RolledBack, Failed:
		if r.Tries <= 0 {
			return Act{Run: RunNone, Do: Control, Leave: true, Why: "this program was gone back from, and is started again and again"}
		}
	}
	return Act{Run: RunNone, Do: Leave, Why: "this program is not the one to run"}
}

func decideOld(r *Record) Act {
	run := RunAll
	if r.Rescue {
		run = RunNone
	}
	switch r.State {
	case Accepted:
		return Act{Run: run, Do: Gate}
	case Fetching:
		return Act{Run: run, Do: Fetch}
	case Staged:
		return Act{Run: run, Do: Stage}
	case Draining:
		return Act{Run: run, Do: Drain}
	case Saved:
		return Act{Run: RunNone, Do: Upload}
	case Switched, Committing:
		return Act{Run: RunNone, Do: Activate}
	case Rollback:
		return Act{Run: RunNone, Do: Revert}
	case Restoring:
		return Act{Run: RunNone, Do: Restore}
	case Committed:
		if r.From.SecureVersion < r.Floor {
			return Act{Run: RunNone, Do: Control, Why: "the program that was committed does not start, and this one is older than what is secure"}
		}
		return Act{Run: run, Do: Rest, Why: "the program that was committed does not start: this is the one before it"}
	case Probation: // Started has not been told
		return Act{Run: RunNone, Do: Control, Why: "the new program is on probation, and this is the old one"}
	}
	if r.Rescue {
		return Act{Run: RunNone, Do: Control, Why: "no slot holds a program that can be verified: this is the one that the system was installed with, and may not be able to read the state; weir upgrade, the fleet or a package installs another one"}
	}
	return Act{Run: RunAll, Do: Rest}
}

// Boot is pure: what the helper that links slots is to do at a start. n is durable before link is run; when it cannot be made so, link is BootUncounted's. usable tells whether a slot holds a
// verified program; it is not asked of Factory.
func Boot(r Record, now Moment, usable func(Slot) bool) (n Record, link Slot, rescue bool) {
	link, rescue = choose(&r, usable)
	n, err := Next(r, Event{Kind: Counted, Booted: link, Now: now})
	if err != nil { // Counted has none
		n = r
	}
	if n.State != r.State {
		link, rescue = choose(&n, usable)
	}
	return n, link, rescue
}

// BootUncounted is what may be run when the record cannot be read or written: never a program on trial.
func BootUncounted(r Record, usable func(Slot) bool) (link Slot, rescue bool) {
	switch r.State {
	case Switched, Probation, Committing:
		r.State = Rollback
	}
	return choose(&r, usable)
}

// choose: what the record wants, else what ran before, else the factory's. A program that was gone back from is no choice.
func choose(r *Record, usable func(Slot) bool) (Slot, bool) {
	for _, s := range []Slot{r.Runs(), r.Active} {
		switch {
		case s == Factory:
			return Factory, r.Rescue
		case s != "" && usable(s):
			return s, false
		}
	}
	return Factory, true
}
