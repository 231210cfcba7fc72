package upgrade

// Replaced is told by the agent in a start that the helper has had taken by the factory program, whatever the record asked for: another package was installed over it, the helper's directory is new, or an operator asked. Event.Why. From
// here on the record says so as well. Telling it again changes nothing.
const Replaced Kind = "replaced"

// replaced: at rest there is no upgrade any more. One that is under way ends on the way that it would end on anyway, with the factory program as the one that goes on: what was saved is restored, what was held back is dropped.
func replaced(n *Record, e Event) {
	if n.State == Idle {
		return
	}
	owed := n.Holds()
	switch n.State {
	case Accepted, Fetching, Staged, Draining, Saved:
		fail(n, CauseHalted, e.Why)
	case Switched, Probation, Committing:
		back(n, CauseHalted, e.Why, e.Now)
	case Rollback, Restoring:
	case Committed, RolledBack, Failed:
		if owed { // of an upgrade that a rescue cut short
			n.State = Restoring
			break
		}
		*n = Record{Format: n.Format, Number: n.Number, Scope: n.Scope, Serial: n.Serial, Minor: n.Minor, Rejected: n.Rejected, Floor: n.Floor}
		return
	}
	n.Active, n.Rescue, n.Unreverted = Factory, false, false
}
