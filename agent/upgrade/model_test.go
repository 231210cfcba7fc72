package upgrade

import (
	"fmt"
	"slices"
)

// The model: a machine with two slots and a factory program, a helper or a boot loader, one process at a time, and what an upgrade is about in the plainest terms. All that decides is Next, Decide and
// Boot themselves. Each step is one durable thing; a crash may come before and behind any.

// qualities are those of the first program that is asked for; the second one is good.
var qualities = []string{"good", "crashes at once", "never ready, or hangs", "corrupts its state", "no sink, or unreadable", "dies before its commit", "now so, now so", "fails its self-test"}

var digests = map[string]string{"old": digest("0"), "new1": digest("1"), "new2": digest("2")}

type world struct {
	r       Record
	slots   [3]string // of factory, a, b: "", "part", "rot", "old", "new1", "new2"
	quality string

	loader  bool // a boot loader chooses the slot and counts too; else the helper links
	primary Slot
	left    int // starts that the loader leaves the primary; -1: it is good
	up      Slot

	alive    bool
	booted   Slot
	prog     string // what was in the slot then
	rescue   bool
	told     bool // Started
	late     bool // fault: the start is counted by the program itself
	run      Running
	stopped  bool // behind S
	restored bool

	s       bool   // S is there, and the journal behind it
	lineage string // who made the newest checkpoint: old, new1 …; "bad": nobody can read it
	held    string // whose results wait in the outbox; "": nobody's
	out     string // whose results went out behind S; "": nobody's
	starts  int    // of the program on trial, in this phase
	asks    int
	rots    int
	fails   int // of Revert
	fences  int // how often another device has taken the place
	fenced  bool
	owed    bool // the package was replaced while S was held: it is to be restored
}

func index(s Slot) int { return slices.Index([]Slot{Factory, SlotA, SlotB}, s) }

func (w *world) usable(s Slot) bool {
	c := w.slots[index(s)]
	return c == "old" || c == "new1" || c == "new2"
}

// key tells worlds apart. Began, Why and what only grows are left out.
func (w *world) key() string {
	var bits, bit uint64 = 0, 1
	saved := len(w.r.Savings) > 0
	for _, set := range []bool{w.r.Again, w.r.Unreverted, w.r.Rescue, w.r.Cause.Rejects(), w.loader, w.alive, w.rescue, w.told, w.late, w.stopped, w.restored, w.s, saved, w.r.Before, w.r.From.SHA256 == "", w.r.Serial > 0,
		w.r.UploadS, saved && w.r.Savings[0].Uploaded, w.r.From.SecureVersion < w.r.Floor, w.fenced, w.owed} {
		if set {
			bits |= bit
		}
		bit <<= 1
	}
	b := make([]byte, 0, 128)
	for _, n := range []int{w.r.Tries, w.left, w.starts, w.asks, w.rots, w.fails, w.fences, int(bits & 0xff), int(bits >> 8 & 0xff), int(bits >> 16)} {
		b = append(b, byte(n))
	}
	for _, s := range []string{string(w.r.State), string(w.r.Active), string(w.r.Standby), w.r.Target.Version, w.slots[1], w.slots[2], string(w.primary), string(w.up), string(w.booted), w.prog, string(w.run), w.lineage, w.held, w.out} {
		b = append(append(b, s...), 0)
	}
	for _, d := range w.r.Rejected {
		b = append(b, d[0])
	}
	return string(b)
}

func (w *world) String() string {
	return fmt.Sprintf("%q tries %d again %v active %s standby %s target %s rescue %v why %q; slots %q, loader %v %s %d up %q; runs %q %s told %v rescue %v pipelines %s; S %v by %s held %q out %q asks %d rots %d", w.r.State, w.r.Tries, w.r.Again, w.r.Active, w.r.Standby,
		w.r.Target.Version, w.r.Rescue, w.r.Why, w.slots, w.loader, w.primary, w.left, w.up, w.booted, w.prog, w.told, w.rescue, w.run, w.s, w.lineage, w.held, w.out, w.asks, w.rots)
}

// model is a run of the checker; fault is planted.
type model struct {
	fault string
	asks  []string // what may be asked for; a rescue asks once more
	many  int      // documents
	rots  int      // slots that may be damaged
	swap  bool     // the package may be replaced: the factory's program starts, whatever the record says
	any   bool     // worlds that nobody has led to: modelany_test.go
	seen  modelled // nil: nobody asks
	fence bool     // another device may take this one's place, and give it back
	wrong string   // the first breach of an invariant
}

func (m *model) breach(w *world, what string) {
	if m.wrong == "" && (!m.any || !ofThePast[what]) {
		m.wrong = fmt.Sprintf("%s: %s", what, w)
	}
}

// next writes what an event makes of the record.
func (m *model) next(w world, e Event) world {
	n, err := Next(w.r, e)
	if err != nil {
		m.breach(&w, err.Error())
		return w
	}
	m.seen.event(&w.r, &n, e.Kind)
	if n.State != w.r.State && (n.State == Switched || n.State == Committing) {
		w.starts = 0
	}
	w.r = n
	return w
}

func (w world) dead() world {
	w.alive, w.booted, w.prog, w.rescue, w.told, w.late, w.run, w.stopped, w.restored = false, "", "", false, false, false, RunNone, false, false
	return w
}

func (w world) reboot() world {
	w = w.dead()
	w.up = ""
	return w
}

// restart is backend.Restart.
func (w world) restart() world {
	if w.loader {
		return w.reboot()
	}
	return w.dead()
}

// start is the helper, or the loader and then the helper.
func (m *model) start(w world) (counted world, fair []world) {
	link, rescue, n := w.up, false, w.r
	switch {
	case !w.loader:
		n, link, rescue = Boot(w.r, Moment{}, w.usable)
	case w.up == "":
		w.up = w.primary
		if w.left == 0 { // used up: the other one, for good
			w.up = map[Slot]Slot{SlotA: SlotB, SlotB: SlotA}[w.primary]
			w.primary, w.left = w.up, -1
		} else if w.left > 0 {
			w.left--
		}
		return w, []world{w}
	case !w.usable(w.up):
		if w.left < 0 {
			w.left = 0 // a system that was good and does not come up: loaders fall back in the end
		}
		return w, []world{w.reboot()}
	default:
		n, _ = Next(w.r, Event{Kind: Counted, Booted: link})
	}
	if m.seen.event(&w.r, &n, Counted); m.fault != "tries written behind exec" {
		w.r = n
	}
	counted = w
	w.alive, w.booted, w.prog, w.rescue, w.late = true, link, w.slots[index(link)], rescue, m.fault == "tries written behind exec"
	if !w.usable(link) {
		m.breach(&w, "a slot runs that was never staged whole")
	}
	if link == w.r.Standby && (w.r.State == Probation || w.r.State == Committing) {
		w.starts++
		if w.starts > TriesNew {
			m.breach(&w, "a program on trial was started more often than it had tries")
		}
		if slices.Contains(w.r.Rejected, w.r.Target.SHA256) {
			m.breach(&w, "a rejected program is tried again")
		}
	}
	return counted, []world{w}
}

// fair gives what the machine does of itself next: crashes of a bad program are part of that.
func (m *model) fair(w world) []world {
	if !w.alive {
		_, next := m.start(w)
		return next
	}
	if w.late && w.prog == "new1" && w.quality == "crashes at once" {
		return []world{w.dead()}
	}
	if w.late {
		w.late = false
		return []world{m.next(w, Event{Kind: Counted, Booted: w.booted})}
	}
	if !w.told {
		return m.tell(w)
	}
	if w.fenced {
		return nil
	}
	a := Decide(w.r, Situation{Booted: w.booted, Rescue: w.rescue})
	m.seen.act(a)
	if m.fault == "the old program runs in committing" && w.r.State == Committing && w.booted == w.r.Active {
		a = Act{Run: RunAll, Do: Rest}
	}
	if a.Run == RunAll && w.run != RunAll && !(w.r.State == Draining && w.stopped) {
		return []world{m.runAll(w)}
	}
	if a.Run == RunNone && w.run != RunNone && a.Do != Restore {
		w.run = RunNone
		return []world{w}
	}
	if a.Leave && w.usable(w.r.Active) { // else it is started again for ever, and waits for help in between
		return []world{w.reverted().restart()}
	}
	if a.Revert && a.Do != Leave {
		w = w.reverted()
		if w.booted != w.r.Active {
			return []world{w.restart()}
		}
		return []world{m.next(w, Event{Kind: Reverted})}
	}
	return m.act(w, a.Do)
}

// tell is what a process does before anything else. The old one may hear from the helper why the new one was not run.
func (m *model) tell(w world) (next []world) {
	if m.dies(&w) {
		next = append(next, w.dead())
	}
	if !w.fenced && w.booted == w.r.Standby && (w.r.State == Probation || w.r.State == Committing) { // the disk is full, and the program ends before it has begun
		full := m.next(w, Event{Kind: Went, Cause: CauseSpace, Why: "full", Booted: w.booted})
		if len(full.r.Rejected) > len(w.r.Rejected) {
			m.breach(&full, "a full disk has a program rejected")
		}
		next = append(next, full.dead())
	}
	w.told = true
	if !w.fenced && !w.loader && w.r.State == Switched && w.booted == w.r.Active && (!w.rescue || w.r.Rescue) {
		next = append(next, m.started(m.next(w, wentWrong(CauseStage))))
	}
	return append(next, m.started(w))
}

// started is told of by each start. One that is fenced says nothing against a program, however many there are; only a slot that does not start, or a boot loader that has lost its patience, ends its trial.
func (m *model) started(w world) world {
	n := m.next(w, Event{Kind: Started, Booted: w.booted, Rescue: w.rescue, Fenced: w.fenced && m.fault != "fenced starts count"})
	if !w.fenced {
		return n
	}
	if len(n.r.Rejected) > len(w.r.Rejected) || n.r.State != w.r.State && w.rots == 0 && !w.loader {
		m.breach(&n, "a start of a fenced device has changed what becomes of its upgrade")
	}
	return n.spared()
}

// spared: a start on trial that could show nothing does not count.
func (w world) spared() world {
	if w.booted == w.r.Standby && (w.r.State == Probation || w.r.State == Committing) && w.starts > 0 {
		w.starts--
	}
	w.run = RunNone
	return w
}

func (w world) reverted() world {
	if w.r.Active == SlotA || w.r.Active == SlotB {
		w.primary, w.left = w.r.Active, -1
	}
	return w
}

// runAll starts the pipelines, and their results leave.
func (m *model) runAll(w world) world {
	p := w.prog
	switch w.r.State {
	case Saved, Switched, Probation, Committing, Rollback, Restoring:
		m.breach(&w, "pipelines run and results leave")
	}
	// The program before reads what the one that was committed wrote: the gate has seen to that.
	fallback := w.r.State == Committed && w.booted == w.r.Active || w.r.State == Failed && w.r.Number > 0 && w.r.From.SHA256 == ""
	fallback = fallback || m.swap && w.r.State == Idle && w.booted == Factory && !w.owed // as the operator has it, who replaced the package
	if !fallback && w.lineage != p && w.lineage != "" {
		m.breach(&w, p+" goes on from what "+w.lineage+" made")
	}
	if slices.Contains(w.r.Rejected, digests[p]) {
		m.breach(&w, "a rejected program runs pipelines")
	}
	if w.held != "" && w.held != p && !fallback {
		m.breach(&w, p+" lets results of "+w.held+" go")
	}
	if !w.r.Releases() {
		m.breach(&w, "results leave though the record holds them")
	}
	if w.held != "" {
		w.out = w.held
	}
	w.run, w.held, w.stopped, w.lineage = RunAll, "", false, p
	return w
}
