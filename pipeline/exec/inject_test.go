package exec

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// endless is a journal that gives its blocks and then waits for more.
type endless struct{ blocks chan *pipeline.Block }

func (e *endless) Next(ctx context.Context) (*pipeline.Block, error) {
	select {
	case b := <-e.blocks:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
func (e *endless) Close() error { return nil }

// stuck is a full outbox: Emit waits until it is opened.
type stuck struct{ open chan struct{} }

func (s *stuck) Emit(ctx context.Context, _ []pipeline.Result) error {
	select {
	case <-s.open:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
func (s *stuck) Barrier(context.Context, pipeline.Barrier) error { return nil }

func plainGraph(tasks int) *plan.Graph {
	columns := []codec.Column{{Name: "v", Slot: slotValue}}
	g := &plan.Graph{}
	for i := range tasks {
		g.Sources = append(g.Sources, testSource(fmt.Sprint("s", i)))
		g.Sinks = append(g.Sinks, &plan.Sink{UID: fmt.Sprint("k", i), From: sourceRef(i), Columns: columns, Whole: -1})
		g.Tasks = append(g.Tasks, plan.Task{Name: fmt.Sprint("t", i), Sources: []int{i}, Sinks: []int{i}})
	}
	return g
}

// TestRule15_AnInjectThatFailedPutNothingIn: a checkpoint times out while a full queue holds the pipeline. The coordinator takes an error of
// Inject for "no task will freeze"; a barrier that comes through afterwards would freeze changes that the next manifest lacks.
func TestRule15_AnInjectThatFailedPutNothingIn(t *testing.T) {
	for tasks := 1; tasks <= 2; tasks++ {
		synctest.Test(t, func(t *testing.T) {
			journal := &endless{blocks: make(chan *pipeline.Block, 100)}
			full := &stuck{open: make(chan struct{})}
			var mu sync.Mutex
			frozen := map[uint64]int{}
			p, err := New(Options{
				Graph: plainGraph(tasks), Generation: 1,
				Deliver: func(s pipeline.TaskSnapshot) { mu.Lock(); frozen[s.Barrier.ID]++; mu.Unlock() },
				Read:    func(pipeline.Position) (pipeline.BlockReader, error) { return journal, nil },
				Sink: func(uid string) (pipeline.ResultSink, error) {
					if uid == "k0" {
						return full, nil
					}
					return &collect{}, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			for pos := range pipeline.Position(1 + channelDepth) { // one is worked on, the rest fills the channel
				journal.blocks <- &pipeline.Block{First: pos + 1, Last: pos + 1, Entries: []pipeline.Entry{
					{Pos: pos + 1, Source: "s0", Kind: pipeline.EntryMessage, Payload: []byte(`{"t":1,"v":1}`)}}}
			}
			ctx, stop := context.WithCancel(t.Context())
			var work sync.WaitGroup
			work.Go(func() { p.Run(ctx) })
			synctest.Wait()
			timeout, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			failed := make(chan error, 1)
			work.Go(func() { failed <- p.Inject(timeout, 7) })
			time.Sleep(2 * time.Second)
			close(full.open)
			synctest.Wait()
			err = <-failed
			if err := p.Inject(ctx, 8); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			mu.Lock()
			if err != nil && frozen[7] != 0 || err == nil && frozen[7] != tasks {
				t.Errorf("%d tasks: Inject said %v, %d tasks froze", tasks, err, frozen[7])
			}
			if frozen[8] != tasks {
				t.Errorf("the next barrier reached %d of %d tasks", frozen[8], tasks)
			}
			mu.Unlock()
			stop()
			work.Wait()
		})
	}
}

// panicky is a decoder with a mistake.
type panicky struct{ codec.Decoder }

func (panicky) Decode([]byte, []pipeline.Value) error { panic("index out of range") }

// TestAPanicOutsideOfOperatorsFailsThePipelineOnly: one record must not end the process, and with it every other pipeline.
func TestAPanicOutsideOfOperatorsFailsThePipelineOnly(t *testing.T) {
	g := plainGraph(1)
	g.Sources[0].Decoders = []plan.TopicDecoder{{New: func() codec.Decoder { return panicky{} }}}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{block: 1, entries: []pipeline.Entry{{Pos: 1, Source: "s0", Kind: pipeline.EntryMessage, Payload: []byte("x")}}}, nil
		},
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "panic") || !strings.Contains(err.Error(), "index out of range") {
		t.Errorf("got %v", err)
	}
}

// rotten is an operator that trips over its restored state.
type rotten struct{ windows }

func (*rotten) Restored() error { panic("slice bounds out of range") }

// TestAPanicOverRestoredStateIsAnError: the agent restores a pipeline on a goroutine of its own; a panic there would end every pipeline,
// and again after each restart.
func TestAPanicOverRestoredStateIsAnError(t *testing.T) {
	g := plainGraph(1)
	g.Steps = []*plan.Step{oneInput("bad", sourceRef(0), func() pipeline.Operator { return &rotten{} })}
	g.Tasks[0].Steps = []int{0}
	_, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {},
		Sink: func(string) (pipeline.ResultSink, error) { return &collect{}, nil },
	})
	if err == nil || !strings.Contains(err.Error(), "step bad") || !strings.Contains(err.Error(), "slice bounds") {
		t.Errorf("got %v", err)
	}
}
