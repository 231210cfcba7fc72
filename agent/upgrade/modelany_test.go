package upgrade

import "testing"

// The model from anywhere. What a crash leaves are the record, the slots and what the boot loader thinks. anyWorlds has every combination of them that can be told apart, reached or not; it is closed: whatever
// event or crash comes, at any moment of any run, leads into it again. From each of them a run without further crashes ends. Both together: any sequence of events and crashes, from any state, comes to an agent
// that runs.

// anything is the quality of a program that may die, fail or do well whenever it is on trial.
const anything = "anything"

// ofThePast are breaches that tell of what was before: a world that nobody has led to has no past.
var ofThePast = map[string]bool{
	"S is gone": true, "a rejected program runs pipelines": true, "a rejected program is tried again": true, "a rejected program is asked for and taken": true,
}

// dies: the program on trial may end now.
func (m *model) dies(w *world) bool {
	return w.quality == anything && w.booted == w.r.Standby && (w.r.State == Probation || w.r.State == Committing)
}

// plain is what a crash leaves of a world, and of that what Next and Decide can tell apart: B is the slot that is written to, its program the one that is asked for.
func (w world) plain() world {
	r := Record{State: w.r.State, Active: w.r.Active, Standby: w.r.Standby, Unreverted: w.r.Unreverted, Rescue: w.r.Rescue}
	p := world{slots: w.slots}
	if w.loader {
		p.loader, p.primary, p.left, p.up = true, w.primary, w.left, w.up
	}
	if len(w.r.Savings) > 0 {
		r.Savings = saving()
	}
	switch r.State {
	case Accepted, Fetching, Staged, Draining, Saved:
		if r.UploadS = w.r.UploadS; r.UploadS && len(r.Savings) > 0 {
			r.Savings[0].Uploaded = w.r.Savings[0].Uploaded
		}
	}
	switch r.State {
	case Idle, Accepted, Fetching, Staged, Committed:
	default:
		r.Tries = w.r.Tries
	}
	if r.State == Accepted || r.State == Fetching || r.State == Failed {
		r.Before = w.r.Before
	}
	r.Again = r.State == Switched && w.r.Again
	if r.State == Committed && w.r.From.SecureVersion < w.r.Floor {
		r.Floor = 1
	}
	if r.Standby == SlotA {
		swap := map[Slot]Slot{SlotA: SlotB, SlotB: SlotA, Factory: Factory, "": ""}
		r.Active, r.Standby, p.primary, p.up = swap[r.Active], SlotB, swap[p.primary], swap[p.up]
		p.slots[1], p.slots[2] = p.slots[2], p.slots[1]
	}
	for i, s := range []Slot{SlotA, SlotB} {
		switch whole := w.usable(s); {
		case p.slots[i+1] == "" || p.slots[i+1] == "part" || p.slots[i+1] == "rot":
		case whole && s == r.Standby && w.slots[index(w.r.Standby)] == w.r.Target.Version:
			p.slots[i+1] = "new1"
		default:
			p.slots[i+1] = "old"
		}
	}
	if !w.loader && r.Active != SlotA { // nobody looks there
		p.slots[1] = ""
	}
	if r.State != Idle {
		r.Target = Target{Version: "new1", SHA256: digests["new1"]}
	}
	p.r, p.quality, p.run, p.s = r, anything, RunNone, true
	return p
}

// anyRecords are those that Check lets through, as plain leaves them.
func anyRecords() (list []Record) {
	bools := []bool{false, true}
	list = append(list, Record{})
	for _, state := range states[1:] {
		for tries := range TriesOld + 1 {
			for _, active := range []Slot{Factory, SlotA} {
				for bits := range 1 << 7 {
					is := func(i int) bool { return bools[bits>>i&1] }
					r := Record{State: state, Tries: tries, Active: active, Standby: SlotB, Target: Target{Version: "new1", SHA256: digests["new1"]}, Again: is(0), Unreverted: is(1), Rescue: is(2), Before: is(3), UploadS: is(5)}
					if is(4) {
						r.Savings = saving()
						r.Savings[0].Uploaded = is(6)
					}
					if is(6) && (state == Committed) {
						r.Floor = 1
					}
					w := world{r: r, slots: [3]string{"old", "old", ""}}
					if p := w.plain(); same(&p.r, &r) && r.Check() == nil && possible(&r) {
						list = append(list, r)
					}
				}
			}
		}
	}
	return list
}

func same(a, b *Record) bool {
	v, u := world{r: *a}, world{r: *b}
	return v.key() == u.key()
}

// possible: what else no Next writes. That it is so, TestModelFromAnywhere shows: it finds no other.
func possible(r *Record) bool {
	switch {
	case r.Rescue && (r.Active != Factory || r.State == Committed || r.Before):
		return false
	case r.Unreverted && r.State != Restoring && r.State != RolledBack:
		return false
	case r.Before && r.Active == Factory:
		return false
	case r.Tries > TriesNew && r.State != Draining && r.State != Saved:
		return false
	}
	return true
}

// anyWorlds are those records, with whatever lies in the slots, behind a helper or a boot loader that thinks whatever it can.
func anyWorlds() (list []world) {
	for _, r := range anyRecords() {
		for _, active := range []string{"", "old", "rot"} {
			for _, standby := range []string{"", "part", "rot", "old", "new1"} {
				w := world{r: r, slots: [3]string{"old", active, standby}}
				if p := w.plain(); p.slots == w.slots && (r.Active != SlotA || active != "") {
					list = append(list, p)
				}
				if r.Active == Factory || active == "" || r.Rescue {
					continue
				}
				for _, primary := range []Slot{SlotA, SlotB} {
					for left := -1; left <= TriesNew; left++ {
						for _, up := range []Slot{"", SlotA, SlotB} {
							w.loader, w.primary, w.left, w.up = true, primary, left, up
							if w.usable(SlotA) || w.usable(SlotB) { // else there is no machine
								list = append(list, w.plain())
							}
						}
					}
				}
			}
		}
	}
	return list
}

// modelFromAnywhere: from any state, any sequence of events and crashes reaches an agent that runs.
func modelFromAnywhere(t *testing.T, seen modelled) {
	m := &model{seen: seen, any: true, asks: []string{"new1"}, many: 1, rots: 1, swap: true}
	begin := anyWorlds()
	any := map[string]bool{}
	for i := range begin {
		any[begin[i].key()] = true
	}
	g := &graph{index: map[string]int{}}
	g.add(begin...)
	outside, waiting := 0, 0
	for i := 0; i < len(g.list) && m.wrong == ""; i++ {
		g.fair = append(g.fair, g.add(m.fair(g.list[i])...))
		w := g.list[i]
		for _, n := range append(m.adverse(w), w) {
			if p := n.plain(); !any[p.key()] && !lost(&p) {
				if outside++; outside < 5 {
					t.Errorf("from %s\na crash leads to what is not among the %d: %s", &w, len(begin), &p)
				}
			}
		}
		if w.waits() {
			if waiting++; w.mayRun() {
				t.Fatalf("it waits for help, and the program before is whole: %s", &w)
			}
		}
	}
	if m.wrong == "" {
		m.wrong = g.ends()
	}
	if m.wrong != "" {
		t.Fatal(m.wrong)
	}
	t.Logf("%d worlds that a crash may leave, %d on their ways to an end; in %d of these it waits for help", len(begin), len(g.list), waiting)
}

// lost is a system that has no slot left which its loader could start.
func lost(w *world) bool { return w.loader && !w.usable(SlotA) && !w.usable(SlotB) }

// mayRun: the program before is whole, and nothing forbids it.
func (w *world) mayRun() bool {
	switch {
	case w.r.State == Committed && w.r.From.SecureVersion < w.r.Floor:
		return false
	case w.r.Active == "" || w.r.Active == Factory:
		return !w.r.Rescue
	}
	return w.usable(w.r.Active)
}
