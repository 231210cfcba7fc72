package exec

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// Options is what a pipeline needs from the agent.
type Options struct {
	Graph *plan.Graph
	// Restore is the checkpoint to start from; nil starts with empty state behind Start.
	Restore pipeline.StateSource
	// Start is the position before the first record to read, when Restore is nil.
	Start pipeline.Position
	// Generation of the sinks when Restore is nil or says nothing of a sink.
	Generation uint64
	// Read opens the journal at a position: the first block holds the record behind it.
	Read func(after pipeline.Position) (pipeline.BlockReader, error)
	// Sink gives the outbox of a sink; DeadSink is asked for as well.
	Sink func(uid string) (pipeline.ResultSink, error)
	// Deliver takes what tasks freeze at barriers.
	Deliver func(pipeline.TaskSnapshot)
	// Handled is called, from the reader, with the number of records of each batch that was handed on. Optional.
	Handled func(records int)
	// Published is called by a task when NextDeadline may have changed: behind each batch, and when the state is restored. It must not block. Optional.
	Published func()
	// Tables makes the tables of steps; nil: all in memory.
	Tables func(uid string, spec state.Spec) *state.Table
	// BatchRows is the most entries per batch; it never shows in the results.
	BatchRows int
	// Bound is how much a step holds of what it has made, zero: pipeline.BoundDefault; it never shows in the results.
	Bound pipeline.Bound
	// Loss marks results of windows that overlap it; nil: nothing is lost.
	Loss *Loss
	// Skip are rows that a step refuses, as dead letters, because its operator panics at them (PoisonError).
	Skip []Poison
	// Slabs is memory that pipelines share; nil: this one keeps its own.
	Slabs *pipeline.Slabs
	// Ask is told what a decoder wishes to be asked of a message's sender, and the message's position. A replay tells again. It must not
	// block. Optional.
	Ask    func(*plan.Source, *plan.TopicDecoder, pipeline.Position, codec.Wish)
	Logger *slog.Logger

	fault regionFault // planted by tests
	flow  flowFault
}

// Defaults.
const (
	// BatchRowsDefault keeps a batch's rows within the second-level cache of a Cortex-A53.
	BatchRowsDefault = 512
	// batchShare and batchMax: with many instances a batch has so many rows for each, since a fork costs the same however much there is to do; but no
	// more than batchMax, which still lie in a core's cache when another reads them.
	batchShare, batchMax = 256, 4096
	// channelDepth is how many batches wait between two tasks, or blocks between the reader and one: one to work on, one to have ready. More only adds memory and
	// the time that a barrier takes.
	channelDepth = 2
)

// Pipeline is one running plan. New restores it, Run runs it once.
type Pipeline struct {
	options Options
	// instances is in how many a keyed region runs.
	instances int
	tasks     []*task
	reader    *reader
	tapping   tapping
	requests  chan request
	position  atomic.Uint64 // last position cut into a batch
	ended     chan struct{}
	endOnce   sync.Once
}

// New assembles the tasks and fills their state. It reads no record.
func New(o Options) (*Pipeline, error) {
	if o.BatchRows <= 0 {
		o.BatchRows = BatchRows(o.Graph)
	}
	if o.Handled == nil {
		o.Handled = func(int) {}
	}
	p := &Pipeline{options: o, instances: instances(o.Graph), requests: make(chan request), ended: make(chan struct{})}
	start := o.Start
	if o.Restore != nil {
		start = o.Restore.Position()
	}
	p.position.Store(uint64(start))
	readers, err := p.assemble()
	if err != nil {
		return nil, err
	}
	if err := p.restore(); err != nil {
		return nil, err
	}
	for _, t := range p.tasks { // what the checkpoint covers is handled: a pipeline at rest does not lag
		t.done.Store(uint64(start))
	}
	p.reader = &reader{outputs: readers, requests: p.requests, rowsMax: o.BatchRows, position: start, seen: func(in *Input) {
		p.position.Store(uint64(in.Last))
		o.Handled(len(in.Entries))
	}}
	return p, nil
}

// BatchRows is the default of Options.BatchRows for a graph.
func BatchRows(g *plan.Graph) int {
	return min(max(BatchRowsDefault, batchShare*instances(g)), batchMax)
}

// instances resolves the parallelism of a graph on this machine.
func instances(g *plan.Graph) int {
	n := g.Parallelism
	if n == plan.ParallelismAuto {
		n = runtime.GOMAXPROCS(0)
	}
	return min(max(n, 1), pipeline.KeyGroups)
}

// Tasks names the tasks: a checkpoint is complete when each has delivered its snapshot.
func (p *Pipeline) Tasks() []string {
	names := make([]string, len(p.tasks))
	for i, t := range p.tasks {
		names[i] = t.name
	}
	return names
}

// Run reads the journal and works until ctx ends (it returns ctx.Err()), a finite journal has ended with io.EOF and was drained (nil), or something fails.
// When it returns, every goroutine of the pipeline has ended.
func (p *Pipeline) Run(ctx context.Context) error {
	defer p.endOnce.Do(func() { close(p.ended) })
	blocks, err := p.options.Read(pipeline.Position(p.position.Load()))
	if err != nil {
		return fmt.Errorf("open journal behind position %d: %w", p.position.Load(), err)
	}
	p.reader.blocks = blocks
	group, gctx := errgroup.WithContext(ctx)
	for _, t := range p.tasks {
		group.Go(func() error { return t.run(gctx) })
	}
	group.Go(func() error { return p.reader.run(gctx) })
	err = group.Wait()
	return errors.Join(err, blocks.Close())
}

// Inject puts barrier id into the streams, between two batches, and returns when the reader has done so. The tasks
// deliver their snapshots later. When ctx ends first, or with ErrStopped when the pipeline has ended, no task of a running pipeline
// will see the barrier; once one has, Inject waits for the others whatever ctx says.
func (p *Pipeline) Inject(ctx context.Context, id uint64) error {
	return p.ask(ctx, request{barrier: id})
}

// Drain sends MaxWatermark behind what was read: every window fires. It returns when the reader has sent it.
func (p *Pipeline) Drain(ctx context.Context) error {
	return p.ask(ctx, request{drain: true})
}

// Halt stops the reading of the journal between two batches, or lets it go on. Barriers and Drain work while it stands: a checkpoint behind a Halt
// covers everything that was read, and no result comes after it.
func (p *Pipeline) Halt(ctx context.Context, halt bool) error {
	return p.ask(ctx, request{halt: &halt})
}

func (p *Pipeline) ask(ctx context.Context, r request) error {
	r.ctx, r.done = ctx, make(chan error, 1)
	select {
	case p.requests <- r:
	case <-p.ended:
		return ErrStopped
	case <-ctx.Done():
		return ctx.Err()
	}
	select { // not ctx: the reader withdraws the request, or it has gone out
	case err := <-r.done:
		return err
	case <-p.ended:
		return ErrStopped
	}
}

// Position is the last position cut into a batch.
func (p *Pipeline) Position() pipeline.Position { return pipeline.Position(p.position.Load()) }

// Handled is the position that every task has worked through.
func (p *Pipeline) Handled() pipeline.Position {
	low := p.tasks[0].done.Load()
	for _, t := range p.tasks[1:] {
		low = min(low, t.done.Load())
	}
	return pipeline.Position(low)
}

// NextDeadline is the elapsed time (ns) at which something would happen though no record comes: the agent journals a
// tick then. NoDeadline when nothing waits.
func (p *Pipeline) NextDeadline() int64 {
	elapsed, eventTime := int64(pipeline.NoDeadline), int64(pipeline.NoDeadline)
	var all []*deadlines
	for _, t := range p.tasks {
		if d := t.timers.Load(); d != nil {
			all = append(all, d)
			elapsed, eventTime = min(elapsed, d.elapsed), min(eventTime, d.eventTime)
		}
	}
	for _, d := range all {
		for _, c := range d.clocks {
			elapsed = min(elapsed, c.next(eventTime))
		}
	}
	return elapsed
}
