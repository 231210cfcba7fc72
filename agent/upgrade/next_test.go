package upgrade

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func digest(c string) string { return strings.Repeat(c, 64) }

func asking(serial uint64, d string) Event {
	return Event{Kind: Asked, Record: Record{
		Scope: "rollout/main", Serial: serial, Target: Target{SHA256: d, MinSecureVersion: 3}, From: Target{SHA256: digest("f")}, Active: Factory, Standby: SlotA,
	}}
}

func saving() []Saving { return []Saving{{Name: "p", Savepoint: "/s", SHA256: digest("5")}} }

// walk leads a record through events, each of which must be taken.
func walk(t *testing.T, r Record, events ...Event) Record {
	t.Helper()
	for _, e := range events {
		n, err := Next(r, e)
		if err != nil {
			t.Fatalf("%s in %q: %v", e.Kind, r.State, err)
		}
		r = n
	}
	return r
}

var (
	toStaged    = []Event{asking(1, digest("a")), {Kind: Passed}, {Kind: Fetched}}
	toSaved     = append(slices.Clone(toStaged), Event{Kind: Ready, Contact: true, Away: []string{"x"}}, Event{Kind: Drained, Savings: saving(), Minor: 7})
	toSwitched  = append(slices.Clone(toSaved), Event{Kind: Switching})
	toProbation = append(slices.Clone(toSwitched), Event{Kind: Counted, Booted: SlotA})
	toCommit    = append(slices.Clone(toProbation), Event{Kind: Passed, Offline: true})
)

func TestAWayThatGoesWell(t *testing.T) {
	r := walk(t, Record{Floor: 2, Rejected: []string{digest("9")}}, append(slices.Clone(toCommit), Event{Kind: Confirmed})...)
	if r.State != Committed || r.Runs() != SlotA || r.Floor != 3 || !r.Offline || !r.Contact || r.Minor != 8 || len(r.Rejected) != 1 || r.Holds() || !r.Releases() || r.Number != 1 {
		t.Errorf("%+v", r)
	}
	if _, err := Next(r, asking(1, digest("b"))); !errors.Is(err, ErrKnown) {
		t.Errorf("a serial a second time: %v", err)
	}
	e := asking(2, digest("f"))
	if _, err := Next(r, e); !errors.Is(err, ErrRuns) {
		t.Errorf("what runs: %v", err)
	}
}

// TestTakenBack: what was rejected is tried when whoever asks says so, and that one alone; when it fails again, it is rejected again.
func TestTakenBack(t *testing.T) {
	r := walk(t, Record{Rejected: []string{digest("9"), digest("a")}}, Event{Kind: Asked, Again: true, Record: asking(1, digest("a")).Record})
	if r.State != Accepted || len(r.Rejected) != 1 || r.Rejected[0] != digest("9") {
		t.Fatalf("%+v", r)
	}
	r = walk(t, r, append(slices.Clone(toProbation[1:]), Event{Kind: Went, Cause: CauseProbation, Why: "w"}, Event{Kind: Reverted}, Event{Kind: Restored})...)
	if !slices.Contains(r.Rejected, digest("a")) {
		t.Errorf("%+v", r)
	}
	if _, err := Next(r, asking(2, digest("a"))); !errors.Is(err, ErrRejected) {
		t.Errorf("nobody has said so: %v", err)
	}
}

// TestFencedStarts: however often a fenced device is started, in whatever state its upgrade is, the record stays as it is.
func TestFencedStarts(t *testing.T) {
	for _, way := range [][]Event{toStaged, toSaved[:4], toSaved, toSwitched, toProbation, toCommit, append(slices.Clone(toProbation), Event{Kind: Halted, Why: "w"})} {
		for _, booted := range []Slot{Factory, SlotA} {
			was := walk(t, Record{}, way...)
			if booted == Factory && was.State == Probation { // it was linked since the slot is damaged
				continue
			}
			r := walk(t, was, Event{Kind: Stands, Booted: booted})
			for range 10 {
				if booted == r.Standby && r.Runs() == r.Standby {
					r = walk(t, r, Event{Kind: Counted, Booted: booted})
				}
				r = walk(t, r, Event{Kind: Started, Booted: booted, Fenced: true})
			}
			if was.State == Switched && booted == SlotA {
				was.State, was.Tries = Probation, r.Tries
			}
			if r.State != was.State || len(r.Rejected) != len(was.Rejected) || r.Tries < was.Tries || r.Tries > max(TriesNew, was.Tries) {
				t.Errorf("%q from %s: %q, %d tries, rejected %v, why %q", was.State, booted, r.State, r.Tries, r.Rejected, r.Why)
			}
		}
	}
	r := walk(t, walk(t, Record{}, toProbation...), Event{Kind: Started, Booted: Factory, Fenced: true})
	if r.State != Rollback || len(r.Rejected) > 0 {
		t.Errorf("a boot loader went back on a fenced device: %q, rejected %v", r.State, r.Rejected)
	}
}

// TestWaysBack: from each state on, what fails or is halted ends as it should, and says whether the program was at fault.
func TestWaysBack(t *testing.T) {
	for _, c := range []struct {
		name    string
		way     []Event
		then    Event
		state   State
		rejects bool
	}{
		{"gate", toStaged[:1], Event{Kind: Went, Cause: CauseGate, Why: "w"}, Failed, false},
		{"halted while fetched", toStaged[:2], Event{Kind: Halted, Why: "w"}, Failed, false},
		{"self-test", toStaged, Event{Kind: Went, Cause: CauseArtifact, Why: "w"}, Failed, true},
		{"halted with S", toSaved, Event{Kind: Halted, Why: "w"}, Failed, false},
		{"upload", toSaved, Event{Kind: Went, Cause: CauseUpload, Why: "w"}, Failed, false},
		{"halted behind the switch", toSwitched, Event{Kind: Halted, Why: "w"}, Rollback, false},
		{"probation", toProbation, Event{Kind: Went, Cause: CauseProbation, Why: "w"}, Rollback, true},
		{"halted in probation", toProbation, Event{Kind: Halted, Why: "w"}, Rollback, false},
		{"boot loader went back", toProbation, Event{Kind: Started, Booted: Factory}, Rollback, true},
		{"cannot be started again when it has passed", toCommit, Event{Kind: Went, Cause: CauseStage, Why: "w", Booted: Factory}, Rollback, false},
		{"halted when it has passed", toCommit, Event{Kind: Halted, Why: "w"}, Committing, false},
	} {
		r := walk(t, Record{}, append(slices.Clone(c.way), c.then)...)
		if r.State != c.state || slices.Contains(r.Rejected, digest("a")) != c.rejects || c.state != Committing && (r.Why == "" || r.Cause == "") {
			t.Errorf("%s: %+v", c.name, r)
		}
		if r.State == Rollback {
			if r = walk(t, r, Event{Kind: Reverted}, Event{Kind: Restored}); r.State != RolledBack || r.Runs() != Factory || r.Minor != 9 {
				t.Errorf("%s: back: %+v", c.name, r)
			}
		}
		if _, err := Next(r, asking(2, digest("a"))); errors.Is(err, ErrRejected) != c.rejects && r.Resting() {
			t.Errorf("%s: asked again: %v", c.name, err)
		}
	}
}

// TestTriesAreUsedUp: by the new program in probation, by either in committing, by the old one in draining.
func TestTriesAreUsedUp(t *testing.T) {
	r, starts := walk(t, Record{}, toSwitched...), 0
	for ; r.State != Rollback; starts++ {
		r = walk(t, r, Event{Kind: Counted, Booted: SlotA})
	}
	if starts != TriesNew+1 || r.Cause != CauseTries { // the last one found none left, and is of the old program
		t.Errorf("%d starts: %+v", starts, r)
	}
	for _, c := range []struct {
		way   []Event
		start Event
		ends  State
	}{
		{toCommit, Event{Kind: Counted, Booted: SlotA}, Rollback},
		{toCommit, Event{Kind: Started, Booted: Factory}, Rollback},
		{toSwitched, Event{Kind: Started, Booted: Factory}, Rollback},
		{toSaved, Event{Kind: Started, Booted: Factory}, Failed},
		{toSaved[:4], Event{Kind: Started, Booted: Factory}, Failed},
	} {
		r := walk(t, Record{}, c.way...)
		before := r.State
		for n := 0; r.State == before; n++ {
			if r = walk(t, r, c.start); n > triesMost {
				t.Fatalf("%q never ends", before)
			}
		}
		if r.State != c.ends {
			t.Errorf("%q ends in %q", before, r.State)
		}
	}
}

// TestNextRefusesWhatCannotBe: every event in every state gives a record that Check takes, or an error and the record as it was.
func TestNextRefusesWhatCannotBe(t *testing.T) {
	kinds := []Kind{Asked, Passed, Fetched, Ready, Drained, Uploaded, Switching, Counted, Started, Confirmed, Reverted, GaveUp, Restored, Went, Halted}
	moves := map[string]bool{}
	for _, s := range states {
		for _, k := range kinds {
			for _, booted := range []Slot{Factory, SlotA, SlotB} {
				r := walk(t, Record{}, toSaved...)
				r.State = s
				e := asking(2, digest("b"))
				e.Kind, e.Booted, e.Cause, e.Why, e.Name, e.Savings = k, booted, CauseProbation, "w", "p", saving()
				n, err := Next(r, e)
				switch {
				case err != nil && !reflect.DeepEqual(n, r):
					t.Errorf("%s in %q: %v, and the record is another", k, s, err)
				case err == nil && n.Check() != nil:
					t.Errorf("%s in %q: %v", k, s, n.Check())
				case err == nil && n.State != r.State:
					moves[fmt.Sprintf("%s -%s-> %s", s, k, n.State)] = true
				}
			}
		}
	}
	if len(moves) != 4+5*2+2*2+1+5+1+2+1+7+1 {
		t.Errorf("%d moves: %v", len(moves), moves)
	}
}

func TestRejectedAreBounded(t *testing.T) {
	var r Record
	for i := range rejectedMost + 5 {
		e := asking(uint64(i+1), fmt.Sprintf("%064x", i))
		r = walk(t, r, e, Event{Kind: Passed}, Event{Kind: Fetched}, Event{Kind: Went, Cause: CauseArtifact, Why: "w"})
	}
	if len(r.Rejected) != rejectedMost || r.Rejected[rejectedMost-1] != fmt.Sprintf("%064x", rejectedMost+4) {
		t.Errorf("%v", r.Rejected)
	}
}

// TestRescue: no slot can be verified in the middle of an upgrade; another program is asked for, and starts from the same S.
func TestRescue(t *testing.T) {
	usable := map[Slot]bool{}
	r := walk(t, Record{}, toProbation...)
	r.Active, r.Standby = SlotB, SlotA
	n, link, rescue := Boot(r, Moment{}, func(s Slot) bool { return usable[s] })
	if link != Factory || !rescue || n.Tries != r.Tries {
		t.Fatalf("%+v: %s, %v", n, link, rescue)
	}
	n = walk(t, n, Event{Kind: Started, Booted: link, Rescue: true})
	if a := Decide(n, Situation{Booted: link, Rescue: true}); a.Do != Control || a.Run != RunNone {
		t.Fatalf("%+v", a)
	}
	e := asking(2, digest("b"))
	e.Rescue = true
	e.Record.Standby = SlotB
	n = walk(t, n, e, Event{Kind: Passed}, Event{Kind: Fetched}, Event{Kind: Ready}, Event{Kind: Drained}, Event{Kind: Switching})
	usable[SlotB] = true
	n, link, rescue = Boot(n, Moment{}, func(s Slot) bool { return usable[s] })
	if link != SlotB || rescue || n.State != Probation || len(n.Savings) != 1 || n.Minor != 9 {
		t.Fatalf("%+v: %s", n, link)
	}
	failed := walk(t, n, Event{Kind: Went, Cause: CauseProbation, Why: "w"}, Event{Kind: Reverted})
	if _, link, rescue = Boot(failed, Moment{}, func(s Slot) bool { return usable[s] }); link != Factory || !rescue || failed.State != RolledBack || !failed.Holds() {
		t.Errorf("%+v: %s, %v", failed, link, rescue)
	}
	if done := walk(t, n, Event{Kind: Passed}, Event{Kind: Confirmed}); done.Rescue || done.Holds() {
		t.Errorf("%+v", done)
	}
}
