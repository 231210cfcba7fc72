package exec

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
)

// runShared replays a journal in a pipeline that shares its memory for slots, with a barrier now and then.
func runShared(entries []pipeline.Entry, block int, slabs *pipeline.Slabs, fault regionFault) outcome {
	sinks := map[string]*collect{}
	p, err := New(Options{
		Graph: oneTask(), Generation: 1, BatchRows: 7, Deliver: func(pipeline.TaskSnapshot) {}, Slabs: slabs, fault: fault,
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries[after:], block: block}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	})
	if err != nil {
		panic(err)
	}
	if err := p.Run(context.Background()); err != nil {
		panic(err)
	}
	o := outcome{}
	o.add(sinks)
	return o
}

// sharedDiffers runs pipelines side by side over one Slabs and tells how the results differ from those of each alone.
func sharedDiffers(journals [][]pipeline.Entry, fault regionFault) string {
	slabs := &pipeline.Slabs{}
	got := make([]outcome, len(journals))
	var all sync.WaitGroup
	for i, entries := range journals {
		all.Go(func() { got[i] = runShared(entries, 5, slabs, fault) })
	}
	all.Wait()
	for i, entries := range journals {
		if d := cmp.Diff(run(nopFatal{}, oneTask(), entries, len(entries), 1000, nil), got[i]); d != "" {
			return d
		}
	}
	return ""
}

func TestPipelinesThatShareSlotsDoNotMix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var journals [][]pipeline.Entry
		for range 4 {
			journals = append(journals, journalOf(t))
		}
		if d := sharedDiffers(journals, regionFault{}); d != "" {
			t.Fatal(d)
		}
	})
}

func TestSlotsGivenAwayTooEarlyAreSeen(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	for seed := range 100 {
		if sharedDiffers([][]pipeline.Entry{gen.Example(seed)}, regionFault{earlyGiven: true}) != "" {
			return
		}
	}
	t.Fatal("not found")
}
