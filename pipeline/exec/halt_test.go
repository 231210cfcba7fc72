package exec

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/weirstream/weir/pipeline"
)

// TestHaltedPipelineReadsNothing: barriers pass, positions stand, and what waited is read when it goes on.
func TestHaltedPipelineReadsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &endless{blocks: make(chan *pipeline.Block, 100)}
		var at []pipeline.Position
		p, err := New(Options{
			Graph: plainGraph(1), Generation: 1, Deliver: func(s pipeline.TaskSnapshot) { at = append(at, s.Barrier.Position) },
			Read: func(pipeline.Position) (pipeline.BlockReader, error) { return journal, nil },
			Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		put := func(pos pipeline.Position) {
			journal.blocks <- &pipeline.Block{First: pos, Last: pos, Entries: []pipeline.Entry{
				{Pos: pos, Source: "s0", Kind: pipeline.EntryMessage, Payload: []byte(`{"t":1,"v":1}`)}}}
			synctest.Wait()
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		do := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		put(1)
		do(p.Halt(ctx, true))
		put(2)
		put(3)
		do(p.Inject(ctx, 1))
		do(p.Halt(ctx, true))
		do(p.Inject(ctx, 2))
		do(p.Halt(ctx, false))
		do(p.Inject(ctx, 3))
		stop()
		<-ended
		if len(at) != 3 || at[0] != 1 || at[1] != 1 || at[2] != 3 {
			t.Errorf("barriers at %v, want 1 1 3", at)
		}
		if err := p.Halt(t.Context(), true); err == nil {
			t.Error("halted what has ended")
		}
	})
}
