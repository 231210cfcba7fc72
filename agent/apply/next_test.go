package apply

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/weirstream/weir/store/disk"
)

// world is what the record is about, in the plainest terms: which plan made what is upstream, and what is held.
type world struct {
	rec      Record
	stopped  bool // the pipeline, behind S
	saved    bool // S is there
	ordered  bool // a restore of S
	running  string
	held     int // results of the new plan in the outbox
	upstream []string
	stood    bool   // lastrun: nothing came behind S
	state    string // which plan's checkpoint is the newest
	refused  bool   // an old plan met a checkpoint of the new one, or the reverse
	fault    string // planted
}

// start runs a plan as the agent would.
func (w *world) start(plan string, hold bool) {
	if w.ordered {
		w.state, w.ordered, w.stopped, w.stood = plan, false, false, false
		if w.fault != "not cut" { // a restore cuts what lies behind S, as dropping does
			w.held = 0
		}
	} else if w.state != plan {
		w.refused = true
		return
	}
	w.running, w.stopped, w.stood = plan, false, false
	if hold && w.fault != "not held" {
		w.held++
	} else {
		for range w.held {
			w.upstream = append(w.upstream, "new")
		}
		w.held = 0
		w.upstream = append(w.upstream, plan)
	}
}

// steps of one apply, each of which is durable; a crash may come between any two. They are what the applier does in a state.
func (w *world) act(works bool, next func(Event)) {
	switch w.rec.State {
	case Saving:
		switch c := w.rec.Changes[0]; {
		case !w.stopped:
			w.stopped, w.running, w.saved, w.stood = true, "", true, true
		case c.Savepoint == "":
			c.Savepoint = "/s"
			next(Event{Kind: Saved, Change: c})
		case !w.ordered:
			w.ordered = true
		default:
			next(Event{Kind: Switched})
		}
	case Probation:
		switch {
		case w.running == "":
			w.start("new", true)
		case works:
			next(Event{Kind: Passed})
		default:
			w.running = ""
			next(Event{Kind: Failed, Why: "it does not work"})
		}
	case Returning:
		switch {
		case w.held > 0 && w.fault != "not cut":
			w.running, w.held = "", 0
		case !w.stood:
			w.stood = true
		case !w.ordered && w.fault != "no restore":
			w.ordered = true
		default:
			next(Event{Kind: Dropped})
		}
	case Restoring:
		if w.running == "" {
			w.start("old", false)
			return
		}
		next(Event{Kind: Restored})
	}
}

// crash is a kill, and the start of the agent behind it.
func (w *world) crash(next func(Event)) {
	w.running = ""
	before := w.rec.State
	next(Event{Kind: Started})
	if before == Saving {
		w.ordered = false // withdrawn
	}
	switch w.rec.State {
	case RolledBack:
		w.start("old", false)
	case Probation:
		w.start("new", true)
	}
}

// TestCrashAtEveryStep: whatever steps the crashes hit, the apply ends committed or gone back, and what is upstream is of the plan that holds, and that alone.
func TestCrashAtEveryStep(t *testing.T) {
	ends := map[string]int{}
	if wrong := crashEverywhere(t, "", ends); wrong != "" {
		t.Error(wrong)
	}
	if ends["true "+string(Committed)] == 0 || ends["true "+string(RolledBack)] == 0 || ends["false "+string(RolledBack)] == 0 || ends["false "+string(Committed)] > 0 {
		t.Error(ends)
	}
	for _, fault := range []string{"not held", "not cut", "no restore"} {
		if wrong := crashEverywhere(t, fault, ends); wrong == "" {
			t.Errorf("planted %q is not found", fault)
		}
	}
}

func crashEverywhere(t *testing.T, fault string, ends map[string]int) (wrong string) {
	t.Helper()
	const stepsMost = 12
	for _, works := range []bool{true, false} {
		for crashes := range 1 << stepsMost { // bit n: a crash before step n
			w := &world{state: "old", fault: fault}
			next := func(e Event) {
				n, err := Next(w.rec, e)
				if err != nil {
					t.Fatalf("%v %b: %v", works, crashes, err)
				}
				w.rec = n
			}
			next(Event{Kind: Asked, Record: Record{Old: "o", New: "n", File: "n", Changes: []Change{{Name: "p", Kind: Changed}}}})
			for step := 0; !w.rec.Resting(); step++ {
				if step > 60 || w.refused {
					return fmt.Sprintf("%v %b: no end: %+v", works, crashes, w)
				}
				if step < stepsMost && crashes&(1<<step) != 0 {
					w.crash(next)
				}
				w.act(works, next)
			}
			if wrong := w.end(); wrong != "" {
				return fmt.Sprintf("%v %b: %s", works, crashes, wrong)
			}
			ends[fmt.Sprintf("%v %s", works, w.rec.State)]++
		}
	}
	return ""
}

func (w *world) end() (wrong string) {
	plan := "old"
	if w.rec.State == Committed {
		plan = "new"
		w.upstream = append(w.upstream, "new") // let go
	}
	for _, u := range w.upstream {
		if u != plan {
			return fmt.Sprintf("%s, and upstream has %v", w.rec.State, w.upstream)
		}
	}
	if w.refused {
		return "a plan met checkpoints of the other"
	}
	if runs, _ := Choose(&w.rec, "n"); w.rec.State == RolledBack && runs != RunKept {
		return "a start runs the file that was gone back from"
	}
	return ""
}

// TestNextRefusesWhatCannotBe: every event in every state gives a state or a BUG, and the record is as it was then.
func TestNextRefusesWhatCannotBe(t *testing.T) {
	states := []State{None, Saving, Probation, Committed, Returning, Restoring, RolledBack}
	kinds := []EventKind{Asked, Saved, Switched, Passed, Failed, Started, Dropped, Restored, Adopted}
	allowed := 0
	for _, s := range states {
		for _, k := range kinds {
			r := Record{State: s, Old: "o", New: "n", Tries: 2, Changes: []Change{{Name: "p", Kind: Changed, Savepoint: "/s"}}}
			n, err := Next(r, Event{Kind: k, Change: r.Changes[0]})
			if err == nil {
				allowed++
			} else if !reflect.DeepEqual(n, r) {
				t.Errorf("%s in %q changed the record: %+v", k, s, n)
			}
		}
	}
	if allowed != 3*3+3+1+2+1+1+1+1+1 {
		t.Errorf("%d transitions", allowed)
	}
	if _, err := Next(Record{State: Saving, Changes: []Change{{Name: "p", Kind: Changed}}}, Event{Kind: Switched}); err == nil {
		t.Error("switched without a savepoint")
	}
}

func TestWhichConfigAStartRuns(t *testing.T) {
	for _, c := range []struct {
		r    Record
		file string
		want Runs
	}{
		{Record{}, "x", RunFile},
		{Record{State: Probation, Old: "o", New: "n"}, "o", RunKept},
		{Record{State: Returning, Old: "o", New: "n"}, "n", RunKept},
		{Record{State: Committed, Old: "o", New: "n", File: "n"}, "n", RunFile},
		{Record{State: Committed, Old: "o", New: "n", File: "o"}, "o", RunKept}, // weir apply of another file
		{Record{State: Committed, Old: "o", New: "n", File: "o"}, "x", RunAdopt},
		{Record{State: RolledBack, Old: "o", New: "n", File: "n", Refused: "n"}, "n", RunKept},
		{Record{State: RolledBack, Old: "o", New: "n", File: "n", Refused: "n"}, "o", RunFile},
		{Record{State: RolledBack, Old: "o", New: "n", File: "n"}, "n", RunKept}, // interrupted
		{Record{State: RolledBack, Old: "o", New: "n", File: "n", Refused: "n"}, "x", RunAdopt},
	} {
		if got, _ := Choose(&c.r, c.file); got != c.want {
			t.Errorf("%+v with file %s: %d, want %d", c.r, c.file, got, c.want)
		}
	}
}

// TestDamagedRecordIsAnError: of every byte.
func TestDamagedRecordIsAnError(t *testing.T) {
	s := Store{FS: disk.OS, Dir: t.TempDir()}
	if r, err := s.Load(); err != nil || r.State != None {
		t.Fatal(r, err)
	}
	want := Record{Number: 3, State: Probation, Old: "o", New: "n", Changes: []Change{{Name: "p", Ends: []End{{"u", 4}}}}}
	if err := s.Save(&want); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Load(); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatal(got, err)
	}
	path := filepath.Join(s.Dir, recordFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		bad := append([]byte(nil), whole...)
		bad[i] ^= 1
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
		if err := os.WriteFile(path, whole[:i], 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Load(); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
}
