package exec

import (
	"context"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// forgetful wraps an operator so that one promise of the engine or of the operator is broken.
type forgetful struct {
	*windows
	noWatermark bool // what the engine says of event time before the first row is ignored
	began       bool
}

func (f *forgetful) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	f.began = true
	f.windows.Process(in, r, out)
}

func (f *forgetful) Watermark(at int64, out *pipeline.Out) {
	if f.noWatermark && !f.began {
		return
	}
	f.windows.Watermark(at, out)
}

// finds tells whether replay equality sees a difference between a sound graph and a broken one within some hundred random journals.
func finds(broken func() *plan.Graph, restored bool) bool {
	found := false
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	for seed := range 300 {
		entries := gen.Example(seed)
		want := run(nopFatal{}, oneTask(), entries, len(entries), 1000, nil)
		if !restored {
			got := run(nopFatal{}, broken(), entries, 3, 3, nil)
			found = found || cmp.Diff(want, got) != ""
			continue
		}
		half := len(entries) / 2
		saved := checkpointAt(entries, half)
		got := run(nopFatal{}, broken(), entries, 3, 3, saved)
		for _, m := range saved.sinks {
			found = found || !slices.Equal(want[m.UID][m.Seq:], got[m.UID])
		}
	}
	return found
}

type nopFatal struct{}

func (nopFatal) Fatal(args ...any) { panic(args) }

// checkpointAt runs a sound graph over the first n entries and freezes it there.
func checkpointAt(entries []pipeline.Entry, n int) *checkpoint {
	return checkpointOf(oneTask(), entries, n)
}

func checkpointOf(g *plan.Graph, entries []pipeline.Entry, n int) *checkpoint {
	c := &coordinator{tasks: 1, open: map[uint64][]pipeline.TaskSnapshot{}, abort: func(uint64) bool { return false }}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: c.deliver,
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		panic(err)
	}
	t := p.tasks[0]
	in := &Input{Number: 1, First: 1, Last: pipeline.Position(n), Entries: entries[:n], Ticks: cutTicks(entries[:n], nil)}
	ctx := context.Background()
	if err := t.batch(ctx, []envelope{{input: in}}); err != nil {
		panic(err)
	}
	if err := t.barrier(ctx, pipeline.Barrier{ID: 1, Position: pipeline.Position(n)}); err != nil {
		panic(err)
	}
	return c.current
}

func withWindows(make func() pipeline.Operator) func() *plan.Graph {
	return func() *plan.Graph {
		g := oneTask()
		g.Steps[3].New = make
		return g
	}
}

func TestPlantedFaultWatermarkAfterRestoreIsFound(t *testing.T) {
	broken := withWindows(func() pipeline.Operator { return &forgetful{windows: &windows{echo: true}, noWatermark: true} })
	if !finds(broken, true) {
		t.Fatal("a step that does not hear the restored watermark goes unnoticed")
	}
	if finds(oneTask, true) {
		t.Fatal("a sound graph differs from itself after a restore")
	}
}

func TestPlantedFaultMergeOrderIsFound(t *testing.T) {
	broken := func() *plan.Graph {
		g := oneTask()
		g.Steps[3].Inputs[0], g.Steps[3].Inputs[2] = g.Steps[3].Inputs[2], g.Steps[3].Inputs[0]
		g.Steps[4].Inputs[0], g.Steps[4].Inputs[1] = g.Steps[4].Inputs[1], g.Steps[4].Inputs[0]
		return g
	}
	if !finds(broken, false) {
		t.Fatal("another order of equal places goes unnoticed")
	}
}

// TestPlantedFaultForgottenDirtyListIsFound: a checkpoint that misses a change (RULES 15) must not restore to the same streams.
func TestPlantedFaultForgottenDirtyListIsFound(t *testing.T) {
	for seed := range 200 {
		entries := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) }).Example(seed)
		saved := checkpointAt(entries, len(entries)/2)
		for name, m := range saved.entries {
			if name == "wa/sums" && len(m) > 0 {
				saved.entries[name] = map[[2]string]string{}
				want := run(nopFatal{}, oneTask(), entries, 10, 10, nil)
				got := run(nopFatal{}, oneTask(), entries, 10, 10, saved)
				for _, mark := range saved.sinks {
					if !slices.Equal(want[mark.UID][mark.Seq:], got[mark.UID]) {
						return
					}
				}
			}
		}
	}
	t.Fatal("lost state goes unnoticed")
}
