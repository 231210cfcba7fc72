package upgrade

import (
	"testing"
	"time"
)

// TestBootChooses: what the record wants, when it can be verified; never a program that was gone back from; without a durable record none that is on trial.
func TestBootChooses(t *testing.T) {
	all := []Slot{SlotA, SlotB}
	for _, c := range []struct {
		state     State
		active    Slot
		usable    []Slot
		link      Slot
		rescue    bool
		uncounted Slot
	}{
		{Idle, "", nil, Factory, false, Factory},
		{Fetching, Factory, all, Factory, false, Factory},
		{Fetching, SlotA, all, SlotA, false, SlotA},
		{Fetching, SlotA, []Slot{SlotB}, Factory, true, Factory},
		{Probation, SlotA, all, SlotB, false, SlotA},
		{Probation, SlotA, []Slot{SlotA}, SlotA, false, SlotA},
		{Probation, Factory, nil, Factory, false, Factory},
		{Probation, SlotA, nil, Factory, true, Factory},
		{Committing, SlotA, all, SlotB, false, SlotA},
		{Committed, SlotA, all, SlotB, false, SlotB},
		{Committed, SlotA, []Slot{SlotA}, SlotA, false, SlotA},
		{Rollback, SlotA, []Slot{SlotB}, Factory, true, Factory},
		{RolledBack, SlotA, all, SlotA, false, SlotA},
		{Failed, SlotA, nil, Factory, true, Factory},
	} {
		usable := func(s Slot) bool {
			for _, u := range c.usable {
				if u == s {
					return true
				}
			}
			return false
		}
		r := Record{State: c.state, Active: c.active, Standby: SlotB, Tries: 2}
		if c.state == Idle {
			r.Standby = ""
		}
		n, link, rescue := Boot(r, Moment{}, usable)
		if link != c.link || rescue != c.rescue || link == SlotB && (c.state == Probation || c.state == Committing) != (n.Tries == 1) {
			t.Errorf("%+v: %s, rescue %v, %+v", c, link, rescue, n)
		}
		if link, _ := BootUncounted(r, usable); link != c.uncounted {
			t.Errorf("%+v: not counted: %s", c, link)
		}
	}
	r := Record{State: Probation, Active: SlotA, Standby: SlotB}
	if n, link, _ := Boot(r, Moment{}, func(Slot) bool { return true }); link != SlotA || n.State != Rollback {
		t.Errorf("no try is left: %s, %+v", link, n)
	}
}

// TestOverdue: each state that has a limit ends at it and not before; another boot is no measure.
func TestOverdue(t *testing.T) {
	for _, c := range []struct {
		way   []Event
		limit time.Duration
		ends  State
	}{{toSaved[:4], DrainLimit, Failed}, {toSaved, UploadLimit, Failed}, {toProbation, ProbationLimit + 90*time.Second, Rollback}} {
		r := walk(t, Record{}, c.way...)
		r.Probation, r.Began = 90_000, Moment{Boot: "b", Ns: 5}
		at := Moment{Boot: "b", Ns: 5 + int64(c.limit)}
		if _, is := Overdue(r, Moment{Boot: "b", Ns: at.Ns - 1}); is {
			t.Errorf("%q: too early", r.State)
		}
		if _, is := Overdue(r, Moment{Boot: "c", Ns: at.Ns}); is {
			t.Errorf("%q: in another boot", r.State)
		}
		e, is := Overdue(r, at)
		if !is {
			t.Fatalf("%q is not overdue", r.State)
		}
		if n := walk(t, r, e); n.State != c.ends || n.Why == "" {
			t.Errorf("%q: %+v", r.State, n)
		}
		if n := walk(t, r, Event{Kind: Started, Booted: r.Runs(), Now: Moment{Boot: "c", Ns: 1}}); n.Began.Boot != "c" {
			t.Errorf("%q: the time goes on from another boot: %+v", r.State, n.Began)
		}
	}
	for _, way := range [][]Event{toStaged[:1], toStaged[:2], toStaged, toSwitched, toCommit} {
		if _, is := Overdue(walk(t, Record{}, way...), Moment{Ns: 1 << 60}); is {
			t.Errorf("%q has no limit", way[len(way)-1].Kind)
		}
	}
}
