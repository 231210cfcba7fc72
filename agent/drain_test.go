package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/restore"
)

// TestDrainedPipelineFiresEveryWindowAndCanGoOn: the open window leaves before the stop; restored, the clocks are those of the records, so that nothing is late
// that was not.
func TestDrainedPipelineFiresEveryWindowAndCanGoOn(t *testing.T) {
	for _, merged := range []bool{false, true} {
		b := newBench(t, pipelineNamed("p", "log"))
		if merged { // the window stands behind a merge, which keeps a watermark of its own
			b.text = strings.Replace(b.text, "      - {uid: w, from: s,", "      - {uid: lo, from: s, filter: \"id % 2 == 0\"}\n      - {uid: hi, from: s, filter: \"id % 2 == 1\"}\n      - {uid: u, from: [lo, hi]}\n      - {uid: w, from: u,", 1)
		}
		b.start()
		b.put(1, 95)
		b.await("delivery", at(95))
		if _, err := b.agent.CreateSavepoint(t.Context(), "p", api.SavepointOptions{Pipeline: "p", Drain: true}); err == nil {
			t.Error("drained a pipeline that goes on")
		}
		list, err := b.agent.StopWithSavepoint(t.Context(), "p", api.SavepointOptions{Pipeline: "p", Drain: true})
		if err != nil {
			t.Fatal(err)
		}
		f, err := restore.ReadSavepoint(t.Context(), list[0].File)
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
		if !f.Head.Drained {
			t.Error("the savepoint does not say that it was drained")
		}
		if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: list[0].File}); err != nil {
			t.Fatal(err)
		}
		b.put(96, 129)
		b.await("more", at(129))
		b.halt()
		b.wantIDs("p", [2]int{1, 129})
		if got, want := b.counts("p", "later"), []int{9, 10, 10, 10, 10, 10, 10, 10, 10, 6, 4, 10, 10}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("merged %v: windows counted %v, want %v", merged, got, want)
		}
	}
}

// TestFailedDrainStartsAgain: the savepoint cannot be written after event time has ended. What the drain fired never leaves, and the windows are whole.
func TestFailedDrainStartsAgain(t *testing.T) {
	b := newBench(t, strings.Replace(pipelineNamed("p", "log"), "{uid: later, from: w,", "{uid: later, from: w, commit: immediate,", 1))
	b.start()
	b.put(1, 55)
	b.await("delivery", at(55))
	if err := os.WriteFile(filepath.Join(b.dir, "plain"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := b.agent.StopWithSavepoint(t.Context(), "p", api.SavepointOptions{Pipeline: "p", Drain: true, Dir: filepath.Join(b.dir, "plain")})
	if err == nil || !strings.Contains(err.Error(), "starts again") {
		t.Fatal(err)
	}
	b.put(56, 120)
	s := b.await("more", at(120))
	if s.Pipelines[0].Restarts != 0 {
		t.Errorf("%d restarts are counted, none is a failure", s.Pipelines[0].Restarts)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 120})
	b.wantCounts(12)
}

// TestGoingBackAsks: a changed plan gave out results behind the savepoint. Under the old plan again, others would come under their numbers.
func TestGoingBackAsks(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	before := b.text
	b.start()
	b.put(1, 95)
	b.await("delivery", at(95))
	info := b.savepoint(true)
	b.halt()
	b.text = strings.Replace(b.text, "select: [id, k]", "filter: \"id % 2 == 0\"", 1)
	b.start()
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File}); err != nil {
		t.Fatal(err)
	}
	b.put(96, 120)
	b.await("delivery", at(120))
	b.halt()
	b.text = before
	b.start()
	b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File})
	if err == nil || !strings.Contains(err.Error(), "--accept-gap") {
		t.Fatal(err)
	}
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File, AcceptGap: true}); err != nil {
		t.Fatal(err)
	}
	b.await("delivery again", at(120))
	b.halt()
}

// TestChangedPlanNeedsTheStop: the pipeline ran on behind the savepoint. What left at once may be known upstream only, so the numbers cannot be trusted.
func TestChangedPlanNeedsTheStop(t *testing.T) {
	b := benchAt(t, 95)
	info := b.savepoint(false)
	b.halt()
	b.text = strings.Replace(b.text, "select: [id, k]", "filter: \"id % 2 == 0\"", 1)
	b.start()
	err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File})
	if err == nil || !strings.Contains(err.Error(), "--accept-gap") {
		t.Fatal(err)
	}
	b.stop()
	<-b.done
}

// TestRefusedRestoreLeavesThePipelineRunning: what can be told before it is stopped, is.
func TestRefusedRestoreLeavesThePipelineRunning(t *testing.T) {
	b := benchAt(t, 50)
	info := b.savepoint(true)
	if err := b.agent.StartPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.await("start", at(50))
	b.halt()
	b.start()
	b.await("start", at(50))
	b.agent.registry.Journal = "another" // as if the savepoint were of another gateway
	err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{File: info.File})
	if err == nil || !strings.Contains(err.Error(), "--accept-gap") {
		t.Fatal(err)
	}
	b.put(51, 100)
	b.await("more", at(100))
	b.halt()
	b.wantIDs("p", [2]int{1, 100})
}

// TestCancelledRestoreGoesOnFromItsOwnState: an order that cannot be carried out keeps the pipeline from starting until it is taken back, by a running agent and on
// the files of a stopped one.
func TestCancelledRestoreGoesOnFromItsOwnState(t *testing.T) {
	b := benchAt(t, 50)
	info := b.savepoint(false)
	if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{Cancel: true}); err == nil {
		t.Error("cancelled what was not ordered")
	}
	state := filepath.Join(b.dir, "state")
	last := 50
	for _, live := range []bool{true, false} {
		b.halt()
		if err := OrderRestore(state, "p", api.RestoreOptions{File: info.File + ".gone"}); err != nil {
			t.Fatal(err)
		}
		if !live {
			if err := CancelRestore(state, "p"); err != nil {
				t.Fatal(err)
			}
			if err := CancelRestore(state, "p"); err == nil {
				t.Error("cancelled twice")
			}
		}
		b.start()
		if live {
			b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
			if err := b.agent.RestoreSavepoint(t.Context(), "p", api.RestoreOptions{Cancel: true}); err != nil {
				t.Fatal(err)
			}
		}
		b.put(last+1, last+50)
		last += 50
		b.await("more", at(uint64(last)))
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 150})
}

// TestCheckReadsSavepoints: a whole one is told of, a damaged one is damage.
func TestCheckReadsSavepoints(t *testing.T) {
	b := benchAt(t, 50)
	info := b.savepoint(false)
	b.halt()
	for _, spoilt := range []bool{false, true} {
		if spoilt {
			text, err := os.ReadFile(info.File)
			if err != nil {
				t.Fatal(err)
			}
			text[len(text)/2] ^= 1
			if err := os.WriteFile(info.File, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Check(t.Context(), b.parse(), false)
		if err != nil {
			t.Fatal(err)
		}
		if told := strings.Contains(strings.Join(r.Lines, "\n"), "savepoint "+filepath.Base(info.File)); told == spoilt || (len(r.Damage) > 0) != spoilt {
			t.Errorf("spoilt %v: %v", spoilt, r)
		}
	}
}
