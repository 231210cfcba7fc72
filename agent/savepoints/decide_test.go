package savepoints_test

import (
	"errors"
	"testing"

	"github.com/weirstream/weir/agent/savepoints"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot/savepoint"
)

func TestContinuityIsKeptOrTheOperatorIsAsked(t *testing.T) {
	head := savepoint.Head{Journal: "j", Position: 100, Generation: 2, Sinks: []savepoint.Sink{{UID: "cloud", Generation: 2, Seq: 50}}}
	at := func(seq uint64) []pipeline.SinkMark {
		return []pipeline.SinkMark{{UID: "cloud", Generation: 2, Seq: seq}}
	}
	for _, c := range []struct {
		what   string
		g      savepoints.Ground
		broken bool
		want   savepoints.Way
	}{
		{"nothing came behind it", savepoints.Ground{Journal: "j", First: 1, Next: 101, Stood: true, Ends: at(50)}, false, savepoints.Way{Position: 100, Generation: 2}},
		{"records came, no results", savepoints.Ground{Journal: "j", First: 101, Next: 300, Stood: true, Ends: at(50)}, false, savepoints.Way{Position: 100, Generation: 2}},
		{"it ran on with the same plan", savepoints.Ground{Journal: "j", First: 1, Next: 300, Ends: at(70), SamePlan: true}, false, savepoints.Way{Position: 100, Generation: 2}},
		{"a sink that is new", savepoints.Ground{Journal: "j", First: 1, Next: 300, Stood: true, Ends: append(at(50), pipeline.SinkMark{UID: "new", Generation: 2, Seq: 9})}, false, savepoints.Way{Position: 100, Generation: 2}},
		{"it ran on with another plan", savepoints.Ground{Journal: "j", First: 1, Next: 300, Ends: at(51)}, true, savepoints.Way{Position: 100, Generation: 3}},
		{"what left at once may be known upstream only", savepoints.Ground{Journal: "j", First: 1, Next: 300, Ends: at(50)}, true, savepoints.Way{Position: 100, Generation: 3}},
		{"records are gone", savepoints.Ground{Journal: "j", First: 103, Next: 300, Ends: at(50), SamePlan: true}, true, savepoints.Way{Position: 102, Generation: 3, Lost: 2}},
		{"it is of another journal", savepoints.Ground{Journal: "k", First: 1, Next: 300, SamePlan: true}, true, savepoints.Way{Position: 299, Generation: 3}},
		{"another device's state, this journal came behind it", savepoints.Ground{Journal: "k", First: 1, Next: 300, Whole: true}, true, savepoints.Way{Position: 0, Generation: 3}},
		{"a device may have opened generations since", savepoints.Ground{Journal: "k", First: 1, Next: 300, Least: 2_000_000}, true, savepoints.Way{Position: 299, Generation: 2_000_000}},
		{"it stands beyond the journal", savepoints.Ground{Journal: "j", First: 1, Next: 100, SamePlan: true}, true, savepoints.Way{Position: 99, Generation: 3}},
		{"a generation began since", savepoints.Ground{Journal: "j", First: 1, Next: 300, SamePlan: true, Ends: []pipeline.SinkMark{{UID: "cloud", Generation: 5, Seq: 1}}}, true, savepoints.Way{Position: 100, Generation: 6}},
	} {
		w, err := savepoints.Decide(&head, &c.g)
		if errors.Is(err, savepoints.ErrBreak) != c.broken || err != nil && !c.broken {
			t.Errorf("%s: %v", c.what, err)
		}
		c.g.AcceptGap = true
		w, err = savepoints.Decide(&head, &c.g)
		if err != nil || w.Restarted != c.broken || (w.Why != "") != c.broken {
			t.Errorf("%s: %+v, %v", c.what, w, err)
		}
		if w.Why, w.Restarted = "", false; w != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, w, c.want)
		}
	}
}
