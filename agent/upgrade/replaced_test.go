package upgrade

import (
	"reflect"
	"strings"
	"testing"
)

// TestReplaced: from each state the factory program goes on, and telling it twice is telling it once.
func TestReplaced(t *testing.T) {
	saved := []Saving{{Name: "p", Savepoint: "s", SHA256: strings.Repeat("a", 64)}}
	for _, c := range []struct {
		from   Record
		to     State
		reject bool
	}{
		{Record{State: Idle}, Idle, false},
		{Record{State: Accepted}, Failed, false},
		{Record{State: Draining}, Failed, false},
		{Record{State: Saved, Savings: saved}, Failed, false},
		{Record{State: Switched, Savings: saved}, Rollback, false},
		{Record{State: Probation, Savings: saved}, Rollback, false},
		{Record{State: Committing, Savings: saved}, Rollback, false},
		{Record{State: Committed, Savings: saved}, Idle, false},
		{Record{State: Rollback, Savings: saved}, Rollback, false},
		{Record{State: Restoring, Savings: saved}, Restoring, false},
		{Record{State: RolledBack}, Idle, false},
		{Record{State: Failed}, Idle, false},
		{Record{State: Failed, Rescue: true, Savings: saved}, Restoring, false},
	} {
		r := c.from
		if r.State != Idle {
			r.Number, r.Active, r.Standby, r.Target, r.Serial, r.Scope, r.Floor = 7, SlotA, SlotB, Target{SHA256: strings.Repeat("b", 64)}, 9, "rollout/x", 3
			if r.Rescue {
				r.Active = Factory
			}
		}
		n, err := Next(r, Event{Kind: Replaced, Why: "the package"})
		if err != nil || n.State != c.to || n.Rescue || n.Check() != nil {
			t.Errorf("%s: %+v %v %v", r.State, n, err, n.Check())
		}
		if n.Runs() != Factory || n.Number != r.Number || n.Serial != r.Serial || n.Floor != r.Floor || len(n.Rejected) != 0 {
			t.Errorf("%s: %+v", r.State, n)
		}
		if again, err := Next(n, Event{Kind: Replaced, Why: "the package"}); err != nil || n.State != Failed && !reflect.DeepEqual(again, n) {
			t.Errorf("%s: again %+v %v", r.State, again, err)
		}
		if act := Decide(n, Situation{Booted: Factory}); act.Do == Control || act.Do == Leave || act.Do == Activate {
			t.Errorf("%s: then %+v", r.State, act)
		}
	}
}
