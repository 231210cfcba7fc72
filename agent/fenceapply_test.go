package agent

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
	"github.com/weirstream/weir/agent/identity"
	"github.com/weirstream/weir/agent/restore"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/tests/rig"
)

// otherRows is the bench's text with rows that the old plan never makes, and a sink that it does not have.
func otherRows(b *bench) string {
	return strings.Replace(withEvens(b.text, b.url), "{uid: all, from: s, select: [id, k]}", "{uid: all, from: s, select: {id: id + 1000, k: k}}", 1)
}

// asked asks for a config and does not wait.
func (b *bench) asked(text string) chan *api.ApplyOutcome {
	done := make(chan *api.ApplyOutcome, 1)
	a, file := b.agent, b.file
	go func() {
		done <- a.Apply(b.t.Context(), api.ApplyOptions{File: file, Text: []byte(text)}, func(api.ApplyEvent) error { return nil })
	}()
	return done
}

func onProbation(s *api.Status) bool {
	return s.Apply != nil && s.Apply.State == string(apply.Probation) && len(s.Pipelines) > 0 && s.Pipelines[0].State == string(PipelineRunning)
}

// fencedWithin gives a bench that another device fences while an apply is on probation: p is changed, q goes, both have results that wait.
func fencedWithin(t *testing.T) (b *bench, old string) {
	b = newApplyBench(t)
	b.text = strings.Replace(b.text, "probation: 200ms", "probation: 1h", 1)
	off := b.away()
	b.start()
	b.put(1, 55)
	b.await("delivery", at(55))
	off.Store(true)
	b.put(56, 95)
	b.await("rows wait", func(s *api.Status) bool {
		return s.Pipelines[0].Position >= 95 && s.Pipelines[1].Checkpoint.Position >= 95
	})
	old = b.text
	next := otherRows(b)
	next = next[:strings.Index(next, "  q:")]
	done := b.asked(next)
	b.await("probation", onProbation)
	b.put(96, 120)
	b.await("the new plan works", func(s *api.Status) bool { return s.Pipelines[0].Checkpoint.Position >= 120 })
	b.agent.fenceOff(&identity.Fenced{Major: 2, Board: "another", Where: "a test"})
	s := b.await("the device is fenced", fenced)
	if out := <-done; out.Result != api.ApplyRefused || !strings.Contains(out.Error, "stands in probation") {
		t.Errorf("the apply: %+v", out)
	}
	if s.Apply.State != string(apply.Probation) {
		t.Errorf("the apply is %+v", s.Apply)
	}
	if out := b.agent.Apply(t.Context(), api.ApplyOptions{File: b.file, Text: []byte(old)}, nil); out.Result != api.ApplyRefused || !strings.Contains(out.Error, "fenced") {
		t.Errorf("an apply on a fenced device: %+v", out)
	}
	off.Store(false)
	b.end()
	b.text = old
	return b, old
}

// TestFencedWithinProbation: a fence says nothing against a plan. The apply stands; nothing of the new plan starts, leaves or is handed over, over any number of restarts; taken back,
// the device goes on with the old plans, in a generation of its own, as if the apply had never been.
func TestFencedWithinProbation(t *testing.T) {
	b, _ := fencedWithin(t)
	for range apply.RestartsInProbation + 1 {
		b.start()
		s := b.await("it starts fenced", func(s *api.Status) bool { return fenced(s) && s.Pipelines[0].State == string(PipelineStopped) })
		if n := s.Identity.Stranded; n.Results != 2*(40+4) || n.Records != 25 { // rows 56 to 95, windows to 59 to 89, of p and q
			t.Errorf("left %+v", n)
		}
		b.end()
	}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := ExportHandover(t.Context(), b.parse(), b.options, dir); err != nil {
		t.Fatal(err)
	}
	rows := map[string][]int{}
	for _, r := range rig.JSONLines[resultLine](t, filepath.Join(dir, handoverResults)) {
		if strings.HasSuffix(r.Stream, "/now") {
			rows[r.Pipeline] = append(rows[r.Pipeline], int(r.Seq))
		}
		if strings.Contains(string(r.Data), `"id":10`) {
			t.Errorf("a row of the plan on probation is handed over: %s", r.Data)
		}
	}
	want(t, "rows of p that were handed over", rows["p"], 56, 95)
	want(t, "rows of q that were handed over", rows["q"], 56, 95)
	want(t, "rows upstream", first(b.ids("p", "now")), 1, 55)

	if _, err := Retake(t.Context(), b.parse()); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.await("the old plans go on", func(s *api.Status) bool { return s.Apply.State == string(apply.RolledBack) && at(120)(s) })
	b.put(121, 149)
	b.await("delivery", at(149))
	b.halt()
	for _, p := range []string{"p", "q"} {
		b.wantIDs(p, [2]int{1, 149})
		_, generations := b.ids(p, "now")
		for i, g := range generations {
			if own := identity.GenerationsOf(3); (i < 55) != (g == 1) || i >= 55 && g != own {
				t.Errorf("row %d of %s is of generation %d", i+1, p, g)
			}
		}
	}
	b.wantCounts(14)
}

func first(ids []int, _ []uint64) []int { return ids }

// TestRetakeOfATrialFindsItsFault: without settling the apply, the new plan opens the generation on trial, and going back from it breaks continuity.
func TestRetakeOfATrialFindsItsFault(t *testing.T) {
	b, _ := fencedWithin(t)
	if _, err := retake(t.Context(), b.parse(), nil, func(string) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.await("probation again", onProbation)
	if err := b.agent.named("p").ask(t.Context(), command{fail: errors.New("planted")}); err != nil {
		t.Fatal(err)
	}
	b.await("the old plan does not start", func(s *api.Status) bool {
		return s.Apply.State == string(apply.Restoring) && len(s.Pipelines) > 0 && s.Pipelines[0].State == string(PipelineFailed) && strings.Contains(s.Pipelines[0].Error, "break continuity")
	})
	b.stop()
	<-b.done
}

// TestFencedInEachState: a device that is fenced with an apply in a state keeps the record, starts nothing, and finishes the apply once it is taken back.
func TestFencedInEachState(t *testing.T) {
	for _, state := range []apply.State{apply.Saving, apply.Returning, apply.Restoring} {
		b := newApplyBench(t)
		b.text = strings.Replace(b.text, "probation: 200ms", "probation: 1h", 1)
		b.start()
		b.put(1, 95)
		b.await("delivery", at(95))
		fence := func() { b.agent.fenceOff(&identity.Fenced{Major: 2, Board: "another", Where: "a test"}) }
		b.agent.die = func(at string) {
			if at == map[apply.State]string{apply.Saving: "apply-after-saved", apply.Returning: "apply-after-failed", apply.Restoring: "apply-after-dropped"}[state] {
				fence()
			}
		}
		done := b.asked(otherRows(b))
		if state != apply.Saving {
			b.await("probation", onProbation)
			b.put(96, 120)
			b.await("the new plan works", func(s *api.Status) bool { return s.Pipelines[0].Checkpoint.Position >= 120 })
			if err := b.agent.named("p").ask(t.Context(), command{fail: errors.New("planted")}); err != nil {
				t.Fatal(err)
			}
		}
		<-done
		b.await("the device is fenced", fenced)
		store := apply.Store{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "apply")}
		inState := func() {
			t.Helper()
			if rec, err := store.Load(); err != nil || rec.State != state {
				t.Errorf("the record is %s, %v, want %s", rec.State, err, state)
			}
		}
		inState()
		b.end()
		for range 2 {
			b.start()
			b.await("it starts fenced", fenced)
			b.end()
			inState()
		}
		if _, err := Retake(t.Context(), b.parse()); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.await("the old plans go on", func(s *api.Status) bool { return s.Apply.State == string(apply.RolledBack) && settled(s) })
		b.put(121, 149)
		b.await("delivery", settled)
		b.halt()
		rows := [][2]int{{1, 149}}
		if state == apply.Saving {
			rows = [][2]int{{1, 95}, {121, 149}}
		}
		b.wantIDs("p", rows...)
		b.wantIDs("q", rows...)
		if ids, _ := b.ids("p", "evens"); len(ids) > 0 {
			t.Errorf("%s: %v left", state, ids)
		}
		if orders, _ := filepath.Glob(filepath.Join(b.dir, "state", "pipelines", "*", restore.File)); len(orders) > 0 {
			t.Errorf("%s: %v is left", state, orders)
		}
		if _, err := os.Stat(filepath.Join(b.dir, "state", "fenced")); err == nil {
			t.Error("it is fenced still")
		}
	}
}
