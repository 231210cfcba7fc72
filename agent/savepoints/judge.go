package savepoints

import (
	"errors"
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/snapshot/savepoint"
)

// Fate is what becomes of a step's state.
type Fate string

// The fates, worst last.
const (
	Keep         Fate = "keep"         // the state goes on
	Rename       Fate = "rename"       // it goes on under another uid
	Migrate      Fate = "migrate"      // it goes on in the form that this build writes
	Empty        Fate = "start empty"  // the step is new, or held nothing
	Drop         Fate = "drop"         // the state is left behind
	Incompatible Fate = "incompatible" // the step is there, and cannot read it
)

// Line is the fate of one step.
type Line struct {
	UID     string `json:"uid"`
	Fate    Fate   `json:"fate"`
	Reason  string `json:"reason,omitempty"`
	Entries uint64 `json:"entries"` // of state that the fate is about
}

// Verdict is what a plan can take over of a savepoint.
type Verdict struct {
	Lines []Line `json:"steps"`
	Same  bool   `json:"same"` // plan and behaviours are those of the savepoint
	// Schema is how the columns of the sources changed.
	Schema []plan.ColumnChange `json:"schema,omitempty"`
	as     map[string]string
}

// Take tells under which uid the tables of a step, or source, go on.
func (v *Verdict) Take(uid string) (as string, ok bool) {
	as, ok = v.as[uid]
	return as, ok
}

// ErrDropsState is the error of a plan that would lose state and was not allowed to.
var ErrDropsState = errors.New("the plan would drop state")

// Judge is pure. State is mapped by uid (or by `was`); entries is how much each table of the savepoint holds. A step goes on with its state when its kind,
// settings, input columns and behaviour are those that made it: the bytes of an accumulator mean nothing to another. Else the state is dropped,
// which is an error unless there is none or allow is set.
func Judge(h *savepoint.Head, entries []uint64, g *plan.Graph, allow bool) (*Verdict, error) {
	v := &Verdict{as: map[string]string{}, Same: string(h.PlanHash) == string(g.Hash[:]), Schema: plan.SchemaChanges(string(h.Plan), g)}
	held, tables := map[string]uint64{}, map[string][]savepoint.Table{}
	for i, t := range h.Tables {
		tables[t.UID] = append(tables[t.UID], t)
		if !strings.HasPrefix(t.Name, "$") { // the engine's own: counters and clocks
			held[t.UID] += entries[i]
		}
	}
	before := map[string]*savepoint.Step{}
	for i := range h.Steps {
		before[h.Steps[i].UID] = &h.Steps[i]
	}
	gone := map[string]bool{}
	for uid := range before {
		gone[uid] = true
	}
	for _, s := range g.Steps {
		from := s.UID
		if b := before[from]; b == nil && s.Was != "" {
			from = s.Was
		}
		delete(gone, from)
		v.step(s, before[from], from, held[from], tables[from])
	}
	for i := range h.Steps { // in the order of the old plan
		if b := &h.Steps[i]; gone[b.UID] && b.Stateful {
			v.Lines = append(v.Lines, Line{UID: b.UID, Fate: Drop, Reason: "the plan has no such step", Entries: held[b.UID]})
		}
	}
	for _, t := range h.Tables { // of sources: their clocks
		if before[t.UID] == nil {
			v.as[t.UID] = t.UID
		}
	}
	if allow {
		return v, nil
	}
	var lost []string
	for _, l := range v.Lines {
		if (l.Fate == Drop || l.Fate == Incompatible) && l.Entries > 0 {
			lost = append(lost, fmt.Sprintf("step %s, %d entries: %s", l.UID, l.Entries, l.Reason))
		}
	}
	if len(lost) > 0 {
		return v, fmt.Errorf("%w: %s; --allow-dropped-state starts these steps empty", ErrDropsState, strings.Join(lost, "; "))
	}
	return v, nil
}

// Held is how many entries are a pipeline's own state; entries is how much each table has.
func Held(h *savepoint.Head, entries []uint64) (n uint64) {
	for i, t := range h.Tables {
		if !strings.HasPrefix(t.Name, "$") {
			n += entries[i]
		}
	}
	return n
}

func (v *Verdict) step(s *plan.Step, b *savepoint.Step, from string, entries uint64, tables []savepoint.Table) {
	if b == nil {
		if s.Stateful {
			v.Lines = append(v.Lines, Line{UID: s.UID, Fate: Empty, Reason: "the step is new"})
		}
		return
	}
	reason := ""
	switch {
	case b.Kind != s.Kind:
		reason = fmt.Sprintf("it was %s and is %s", b.Kind, s.Kind)
	case b.Behaviour != uint64(s.Behaviour):
		reason = fmt.Sprintf("its behaviour version was %d and is %d", b.Behaviour, s.Behaviour)
	case b.Params != s.Params:
		reason = "its settings or input columns changed: " + difference(b.Params, s.Params)
	}
	fate, moves := Keep, ""
	if reason == "" && s.Stateful {
		if fate, moves = migration(s, tables); fate == Incompatible {
			reason = moves
		}
	}
	switch {
	case reason != "" && entries > 0:
		if b.Kind == plan.KindWindow {
			reason += "; its open windows cannot be read: what they have counted so far is lost"
		}
		v.Lines = append(v.Lines, Line{UID: s.UID, Fate: Incompatible, Reason: reason, Entries: entries})
		return
	case reason != "":
		if s.Stateful {
			v.Lines = append(v.Lines, Line{UID: s.UID, Fate: Empty, Reason: reason + "; it held nothing"})
		}
		return
	}
	v.as[from] = s.UID
	if !s.Stateful {
		return
	}
	l := Line{UID: s.UID, Fate: Keep, Entries: entries}
	if from != s.UID {
		l.Fate, l.Reason = Rename, "was "+from
	}
	if fate == Migrate {
		if l.Fate = Migrate; l.Reason != "" {
			moves = l.Reason + "; " + moves
		}
		l.Reason = moves
	}
	v.Lines = append(v.Lines, l)
}

// difference shows the first lines that differ.
func difference(was, is string) string {
	a, b := strings.Split(was, "\n"), strings.Split(is, "\n")
	for i := range max(len(a), len(b)) {
		x, y := "nothing", "nothing"
		if i < len(a) {
			x = strings.TrimSpace(a[i])
		}
		if i < len(b) {
			y = strings.TrimSpace(b[i])
		}
		if x != y {
			return fmt.Sprintf("%q became %q", x, y)
		}
	}
	return "in spaces"
}
