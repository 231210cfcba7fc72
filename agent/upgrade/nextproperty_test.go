package upgrade

import (
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestNextProperty: from any state, over any events, whoever sends them: the record can be, an error changes nothing, tries fall but where a state begins, S is let go only at the end, and what was
// rejected stays so and is not accepted.
func TestNextProperty(t *testing.T) {
	kinds := []Kind{Asked, Passed, Fetched, Ready, Drained, Uploaded, Switching, Counted, Started, Confirmed, Reverted, GaveUp, Restored, Went, Halted}
	causes := []Cause{CauseHalted, CauseGate, CauseArtifact, CauseProbation, CauseTries}
	slots := []Slot{Factory, SlotA, SlotB}
	rapid.Check(t, func(t *rapid.T) {
		r := Record{Active: SlotA, Standby: SlotB, Target: Target{SHA256: digest("a")}, From: Target{SHA256: digest("0")}, Savings: saving()}
		r.State = rapid.SampledFrom(states).Draw(t, "state")
		r.Tries = rapid.IntRange(0, triesMost).Draw(t, "tries")
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			e := asking(rapid.Uint64Range(0, 9).Draw(t, "serial"), digest(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "digest")))
			e.Record.Active, e.Record.Standby = rapid.SampledFrom(slots).Draw(t, "active"), rapid.SampledFrom(slots).Draw(t, "standby")
			e.Kind = rapid.SampledFrom(kinds).Draw(t, "kind")
			e.Booted, e.Rescue = rapid.SampledFrom(slots).Draw(t, "booted"), rapid.Bool().Draw(t, "rescue")
			e.Cause, e.Why, e.Name = rapid.SampledFrom(causes).Draw(t, "cause"), "w", "p"
			if rapid.Bool().Draw(t, "savings") {
				e.Savings = saving()
			}
			before := clone(r)
			n, err := Next(r, e)
			switch {
			case !reflect.DeepEqual(r, before):
				t.Fatal("Next changed what it was given")
			case err != nil && !reflect.DeepEqual(n, r):
				t.Fatalf("%s: %v, and the record is another", e.Kind, err)
			case n.Check() != nil:
				t.Fatalf("%s in %q: %v", e.Kind, r.State, n.Check())
			case n.State == r.State && n.Number == r.Number && n.Tries > r.Tries:
				t.Fatalf("%s in %q: tries rise from %d to %d", e.Kind, r.State, r.Tries, n.Tries)
			case n.State == Accepted && n.Number != r.Number && slices.Contains(r.Rejected, n.Target.SHA256):
				t.Fatal("a rejected digest was accepted")
			case r.Releases() != n.Releases() && n.Releases() && e.Kind != Confirmed && n.State != Failed && n.State != RolledBack && n.Number == r.Number:
				t.Fatalf("%s in %q lets results leave", e.Kind, r.State)
			case n.Minor < r.Minor && n.Number == r.Number:
				t.Fatal("the incarnation falls")
			}
			for _, d := range r.Rejected {
				if !slices.Contains(n.Rejected, d) {
					t.Fatalf("%s in %q forgets a rejected digest", e.Kind, r.State)
				}
			}
			for _, s := range slots { // whoever starts knows what to do
				if a := Decide(n, Situation{Booted: s}); a.Do == "" || a.Run == "" || a.Run == RunAll && !n.Releases() {
					t.Fatalf("%q from %s: %+v", n.State, s, a)
				}
			}
			r = n
		}
	})
}
