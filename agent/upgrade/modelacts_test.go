package upgrade

import "slices"

// The acts of the model: what a process does of what Decide says, what is asked for, and what may go wrong from outside.

func wentWrong(c Cause) Event { return Event{Kind: Went, Cause: c, Why: "it went wrong"} }

// act is one step of what Decide says.
func (m *model) act(w world, do Do) []world {
	s := index(w.r.Standby)
	switch do {
	case Gate:
		return []world{m.next(w, Event{Kind: Passed}), m.next(w, wentWrong(CauseGate)), m.next(w, wentWrong(CauseExpired))}
	case Fetch:
		return []world{m.next(w, Event{Kind: Fetched}), m.next(w, wentWrong(CauseSpace)), m.next(w, wentWrong(CauseFetch)), m.next(w, wentWrong(CauseArtifact))}
	case Stage:
		return m.stage(w, s)
	case Drain:
		if w.run == RunAll {
			w.s, w.run, w.stopped = true, RunNone, true
			return []world{w}
		}
		e := Event{Kind: Drained, Savings: saving()}
		if w.r.Rescue {
			e.Savings = nil
		}
		return []world{m.next(w, e), m.next(w, wentWrong(CauseDrain))}
	case Upload:
		if i := slices.IndexFunc(w.r.Savings, func(s Saving) bool { return !s.Uploaded }); w.r.UploadS && i >= 0 {
			return []world{m.next(w, Event{Kind: Uploaded, Name: w.r.Savings[i].Name}), m.next(w, wentWrong(CauseUpload))}
		}
		return []world{m.next(w, Event{Kind: Switching}), m.next(w, wentWrong(CauseUpload))}
	case Activate: // the loader may refuse it, or the reboot not come
		went := wentWrong(CauseStage)
		went.Booted = w.booted
		refused := m.next(w, went)
		w.primary, w.left = w.r.Standby, TriesNew
		return []world{w.restart(), refused, m.next(w, went)}
	case Watch:
		return m.watch(w)
	case Commit:
		return m.commit(w)
	case Revert:
		if w.fails == 0 {
			failed := w
			failed.fails = 1
			return []world{m.next(w.reverted(), Event{Kind: Reverted}), m.next(failed, Event{Kind: GaveUp})}
		}
		return []world{m.next(w.reverted(), Event{Kind: Reverted})}
	case Leave:
		return []world{w.reverted().restart()}
	case Restore:
		return m.restore(w)
	case Control:
		if w.rescue && !m.any { // help comes from outside, or does not
			if n, ok := m.ask(w, "new2"); ok {
				return []world{n}
			}
		}
	}
	return nil
}

func (m *model) stage(w world, s int) []world {
	switch {
	case w.booted == w.r.Standby:
		m.breach(&w, "the slot that runs is written to")
		return nil
	case w.r.Target.Version == "new1" && w.quality == "fails its self-test":
		return []world{m.next(w, wentWrong(CauseArtifact))}
	case w.slots[s] != "part" && w.slots[s] != w.r.Target.Version:
		w.slots[s] = "part"
		return []world{w}
	case w.slots[s] == "part":
		w.slots[s] = w.r.Target.Version
		return []world{w}
	}
	next := []world{m.next(w, Event{Kind: Ready}), m.next(w, wentWrong(CauseStage))}
	if w.quality == anything {
		next = append(next, m.next(w, wentWrong(CauseArtifact)))
	}
	return next
}

// watch is a program on probation: as good as it is.
func (m *model) watch(w world) []world {
	p := w.prog
	q := "good"
	if p == "new1" {
		q = w.quality
	}
	if w.run != RunHeld {
		var bad []world
		switch q {
		case "crashes at once":
			return []world{w.dead()}
		case "no sink, or unreadable":
			return []world{m.next(w, wentWrong(CauseProbation))}
		case anything:
			bad = []world{w.dead(), m.next(w, wentWrong(CauseProbation))}
		}
		if m.fault == "S is let go at the switch" {
			w.s = false
		}
		if w.lineage != p && !w.s && len(w.r.Savings) > 0 {
			m.breach(&w, "S is gone")
		}
		w.run, w.lineage, w.held = RunHeld, p, p
		return append(bad, w)
	}
	if m.fault == "results leave before committed" {
		w.out = p
	}
	passed := m.next(w, Event{Kind: Passed})
	switch q {
	case "never ready, or hangs":
		return []world{w.dead()}
	case "corrupts its state":
		w.lineage = "bad"
		return []world{m.next(w, wentWrong(CauseProbation))}
	case "now so, now so", anything:
		return []world{w.dead(), passed, m.next(w, wentWrong(CauseProbation))}
	}
	return []world{passed}
}

func (m *model) commit(w world) (next []world) {
	p := w.prog
	if p == "new1" && w.quality == "dies before its commit" {
		return []world{w.dead()}
	}
	if m.dies(&w) {
		defer func() { next = append(next, w.dead()) }()
	}
	if w.run != RunHeld {
		w.run, w.lineage, w.held = RunHeld, p, p
		return []world{w}
	}
	if m.fault == "released in committing" && w.out == "" {
		w.out, w.held = p, ""
		return []world{w}
	}
	if w.left >= 0 && w.primary == w.r.Standby {
		w.left = -1
		return []world{w}
	}
	return []world{m.next(w, Event{Kind: Confirmed})}
}

func (m *model) restore(w world) []world {
	p := w.prog
	switch {
	case w.out != "" && w.out != p:
		m.breach(&w, "results of "+w.out+" are upstream, and it is gone back from")
	case w.held != "" && m.fault != "nothing is dropped":
		w.held = ""
		return []world{w}
	case !w.restored:
		if !w.s && len(w.r.Savings) > 0 && w.lineage != p {
			m.breach(&w, "S is gone")
		}
		w.lineage, w.restored = p, true
		return []world{w}
	}
	w.owed = false
	return []world{m.next(w, Event{Kind: Restored})}
}

// ask is a verified document.
func (m *model) ask(w world, version string) (world, bool) {
	if w.asks > m.many || w.asks == m.many && !w.rescue {
		return w, false
	}
	w.asks++
	standby := SlotB
	if w.booted == SlotB {
		standby = SlotA
	}
	e := Event{Kind: Asked, Rescue: w.rescue, Record: Record{
		Scope: "rollout/main", Serial: w.r.Serial + 1, Target: Target{Version: version, SHA256: digests[version]}, From: Target{SHA256: digests[w.prog]}, Active: w.booted, Standby: standby, UploadS: version == "new2",
	}}
	if w.prog == version {
		return w, false
	}
	rejected := slices.Contains(w.r.Rejected, digests[version])
	n, err := Next(w.r, e)
	switch {
	case err != nil:
		return w, false
	case rejected:
		m.breach(&w, "a rejected program is asked for and taken")
	}
	m.seen.event(&w.r, &n, Asked)
	w.r, w.out, w.restored = n, "", false
	return w, true
}

// adverse gives what a hostile world may do at any time: kills, power cuts, damage, halts, documents, collection of what nobody holds.
func (m *model) adverse(w world) (list []world) {
	if w.alive {
		list = append(list, w.dead())
		if w.loader {
			list = append(list, w.reboot())
		}
		if m.fence && w.told && !w.fenced && w.fences == 0 {
			n := w
			n.fenced, n.fences = true, 1
			if n.booted == n.r.Standby && m.fault != "fenced starts count" {
				n = m.next(n, Event{Kind: Stands, Booted: n.booted})
			}
			list = append(list, n.spared())
		}
		if w.told && !w.fenced && !w.r.Resting() {
			list = append(list, m.next(w, Event{Kind: Halted, Why: "an operator halts it"}))
		}
		if e, over := Overdue(w.r, Moment{Ns: 1 << 60}); over && w.told && Decide(w.r, Situation{Booted: w.booted, Rescue: w.rescue}).Do != Control {
			list = append(list, m.next(w, e))
		}
		if !w.told && w.r.State == Probation { // a start finds that another device is in this one's place
			list = append(list, m.next(w, wentWrong(CauseGate)).dead())
		}
		if w.told && w.run == RunAll && w.r.Resting() {
			for _, v := range m.asks {
				if n, ok := m.ask(w, v); ok {
					list = append(list, n)
				}
			}
		}
	} else {
		counted, _ := m.start(w)
		list = append(list, counted.reboot()) // between the count and the start
		if w.fenced {                         // taken back: settleUpgrade in agent/upgrader.go
			n := w
			if n.fenced = false; n.r.State == Probation {
				n = m.next(n, wentWrong(CauseGate))
			}
			list = append(list, n)
		}
		if m.swap && !w.loader {
			n := m.next(w, Event{Kind: Replaced, Why: "another package"})
			n.owed = n.owed || w.r.Holds()
			if m.fault == "another package forgets the upgrade" {
				n.r = Record{Rejected: w.r.Rejected}
			}
			list = append(list, n) // and it ends before it does anything
			n.alive, n.told, n.booted, n.prog = true, true, Factory, w.slots[0]
			list = append(list, n)
		}
	}
	for i := 1; i < 3; i++ {
		if w.rots < m.rots && w.slots[i] != "" && w.slots[i] != "rot" && w.slots[i] != "part" && (!w.loader || w.rots == 0 && w.slots[i] != "old") {
			n := w
			n.slots[i], n.rots = "rot", w.rots+1
			list = append(list, n)
		}
	}
	if w.s && (!w.r.Holds() || m.fault == "S is let go at the switch" && w.r.State == Switched) {
		n := w
		n.s = false
		list = append(list, n)
	}
	return list
}
