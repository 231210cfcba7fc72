package exec

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/weirstream/weir/pipeline"
)

// task runs its sources, steps and sinks one batch at a time: chained calls, no channel between them. One goroutine
// owns it from run to return.
type task struct {
	name      string
	sources   []*source
	units     []unit
	pool      *pool  // nil: everything runs in the task's goroutine
	ahead     *ahead // the first input, when that is the reader; else nil
	sinks     []*sink
	inputs    []<-chan envelope // the reader (nil here: ahead takes from it), and one per upstream task
	imports   [][]*edge         // per input: the local copies of the crossing edges it brings
	outputs   []chan<- envelope
	exports   [][]*edge // per output: the edges that cross to it
	slabs     *pipeline.Slabs
	fault     regionFault
	watches   atomic.Pointer[[]watch] // of those who look on; nil: nobody
	lent      []*pipeline.Out         // that give their slots back behind each batch: no row leaves the task
	busy      bool                    // entries came since the last barrier
	toLast    []bool                  // per output: it goes to the last task, which takes the dead letters
	dead      *deadSink               // nil: dead letters go down with the envelope
	pending   []pipeline.DeadRow
	order     map[string]int
	deliver   func(pipeline.TaskSnapshot)
	published func() // Options.Published
	flow      flow
	timers    atomic.Pointer[deadlines]
	counts    atomic.Pointer[Ledger]
	done      atomic.Uint64 // position handled
}

// unit is a step, or a keyed region: what a task runs as one.
type unit interface {
	run(ticks []pipeline.Tick) error
	// refused appends the dead letters of the batch.
	refused(into []pipeline.DeadRow) []pipeline.DeadRow
	timers() (elapsed, eventTime int64)
	ledgers(into []StepLedger) []StepLedger
	// loads appends the tables that a checkpoint fills; restore follows when they are: reached is an elapsed time that the pipeline had come to, -1 when none is known.
	loads(into []tableLoad) []tableLoad
	restore(from pipeline.StateSource, reached int64) error
	// save writes what the engine itself keeps into the tables; freeze then takes what changed in all of them.
	save() error
	freeze(parts []pipeline.StatePart) []pipeline.StatePart
	// collect appends the step's Out, in a region one per instance.
	collect(into []*pipeline.Out) []*pipeline.Out
	// shrink lets go of memory for rows that a burst has left; between batches.
	shrink()
}

// deadSink numbers the pipeline's dead letters; it stands in the last task.
type deadSink struct{ sink }

// deadlines is what a task publishes after each batch, for ticks.
type deadlines struct {
	elapsed   int64 // earliest elapsed timer
	eventTime int64 // earliest event-time timer
	clocks    []idleClock
}

func (t *task) run(ctx context.Context) error {
	taken := make([]envelope, len(t.inputs))
	if t.pool != nil {
		defer t.pool.start()()
	}
	for {
		for i := range t.inputs {
			e, open, err := t.next(ctx, i)
			if err != nil {
				return err
			}
			if !open { // a finite journal has ended; all inputs end behind the same batch
				for _, out := range t.outputs {
					close(out)
				}
				return nil
			}
			taken[i] = e
		}
		if err := align(taken); err != nil {
			return fmt.Errorf("task %s: %w", t.name, err)
		}
		if err := t.handle(ctx, taken); err != nil {
			return fmt.Errorf("task %s: %w", t.name, err)
		}
	}
}

// next takes the next envelope of an input; false: it has ended.
func (t *task) next(ctx context.Context, input int) (envelope, bool, error) {
	if input == 0 && t.ahead != nil {
		return t.ahead.next(ctx)
	}
	select {
	case e, open := <-t.inputs[input]:
		return e, open, nil
	case <-ctx.Done():
		return envelope{}, false, ctx.Err()
	}
}

// handle works through what was taken. A panic of a decoder, an encoder or the engine itself fails the region like one of an
// operator: other pipelines go on, and nobody acknowledges less.
func (t *task) handle(ctx context.Context, taken []envelope) (err error) {
	b := taken[0].barrier
	defer func() {
		if r := recover(); r == nil {
			return
		} else if b != nil {
			err = fmt.Errorf("panic at barrier %d: %v\n%s", b.ID, r, debug.Stack())
		} else {
			err = fmt.Errorf("panic in positions %d to %d: %v\n%s", taken[0].input.First, taken[0].input.Last, r, debug.Stack())
		}
	}()
	if b != nil {
		return t.barrier(ctx, *b)
	}
	plantedHang()
	return t.batch(ctx, taken)
}

// keepSlots has the task use the slots of its rows again when no row leaves it: dead letters are encoded by the last task, at the
// end of the batch.
func (t *task) keepSlots() {
	if len(t.outputs) > 0 {
		return
	}
	t.lent = t.outs()
	for _, o := range t.lent {
		o.Reuse, o.Slabs = true, t.slabs
	}
	if t.ahead != nil {
		t.ahead.each(func(m *scratch) { m.out.Reuse, m.out.Slabs = true, t.slabs })
	}
}

func (t *task) outs() (all []*pipeline.Out) {
	for _, s := range t.sources {
		all = append(all, s.out)
	}
	for _, u := range t.units {
		all = u.collect(all)
	}
	return all
}

// release gives the memory of the batch's slots to other pipelines.
func (t *task) release() {
	for _, o := range t.lent {
		o.Release()
	}
}

// rest lets go of what a burst has left, when nothing came since the last barrier.
func (t *task) rest() {
	if t.busy {
		t.busy = false
		return
	}
	for _, s := range t.sources {
		s.shrink()
	}
	if t.ahead != nil {
		t.ahead.shrink()
	}
	for _, u := range t.units {
		u.shrink()
	}
	for _, s := range t.allSinks() {
		s.shrink()
	}
}

// batch handles one batch and emits exactly one envelope on every output.
func (t *task) batch(ctx context.Context, taken []envelope) error {
	in := taken[0].input
	t.busy = t.busy || len(in.Entries) > 0
	t.pending = t.pending[:0]
	for i := range taken {
		for n := range taken[i].edges {
			*t.imports[i][n] = taken[i].edges[n]
		}
		t.pending = append(t.pending, taken[i].dead...)
	}
	if cell := taken[0].cell; cell != nil {
		defer t.ahead.close(cell)
		if err := t.ahead.open(cell); err != nil {
			return err
		}
	}
	for _, s := range t.sources {
		if err := s.run(in); err != nil {
			return err
		}
		t.pending = append(t.pending, s.out.Dead...)
	}
	t.beginFlow(ctx, in)
	for i, u := range t.units {
		if err := u.run(in.Ticks); err != nil {
			return err
		}
		t.settled(i)
		t.pending = u.refused(t.pending)
	}
	t.show(func(*tapEdge) bool { return true })
	if t.fault.earlyGiven {
		t.release()
	}
	if err := t.hand(ctx); err != nil {
		return err
	}
	if t.dead != nil {
		if err := t.bury(ctx, len(t.pending)); err != nil {
			return err
		}
	}
	t.release()
	t.publish()
	t.done.Store(uint64(in.Last))
	return t.forward(ctx, in)
}

// publish makes what others may ask of the task visible: fresh copies, once per batch.
func (t *task) publish() {
	t.timers.Store(t.deadlines())
	t.counts.Store(t.ledger())
	if t.published != nil {
		t.published()
	}
}

// hand has the sinks hand over what there is.
func (t *task) hand(ctx context.Context) error {
	for _, s := range t.sinks {
		dead, err := s.run(ctx)
		if err != nil {
			return err
		}
		t.pending = append(t.pending, dead...)
	}
	return nil
}

// bury numbers the first n dead letters of those that wait, a part at a time.
func (t *task) bury(ctx context.Context, n int) error {
	orderDead(t.pending, t.order)
	held := 0
	for i := range t.pending[:n] {
		b := encodeDead(&t.pending[i])
		t.dead.add(t.pending[i].Pos, pipeline.NoTime, b)
		if held += len(b); held >= handBytes || len(t.dead.results) >= handRows {
			held = 0
			if err := t.dead.flush(ctx); err != nil {
				return err
			}
		}
	}
	t.pending = slices.Delete(t.pending, 0, n)
	return t.dead.flush(ctx)
}

// forward sends copies: the rows' slots are shared, the slices are reused here.
func (t *task) forward(ctx context.Context, in *Input) error {
	for i, out := range t.outputs {
		e := envelope{input: in}
		for _, x := range t.exports[i] {
			e.edges = append(e.edges, edge{rows: slices.Clone(x.rows), marks: slices.Clone(x.marks)})
		}
		if t.toLast[i] {
			e.dead = slices.Clone(t.pending)
		}
		select {
		case out <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// barrier freezes every table (a swap of its dirty list), hands the snapshot over and lets the barrier go on.
func (t *task) barrier(ctx context.Context, b pipeline.Barrier) error {
	snap := pipeline.TaskSnapshot{Task: t.name, Barrier: b}
	for _, s := range t.sources {
		if err := s.save(); err != nil {
			return fmt.Errorf("source %s: save: %w", s.plan.Name, err)
		}
		s.table.Lock()
		snap.Parts = append(snap.Parts, pipeline.StatePart{UID: "$source/" + s.plan.Name, Spec: s.table.Spec(), Frozen: s.table.Freeze()})
		s.table.Unlock()
	}
	for _, u := range t.units {
		if err := u.save(); err != nil {
			return err
		}
		snap.Parts = u.freeze(snap.Parts)
	}
	for _, s := range t.allSinks() {
		snap.Sinks = append(snap.Sinks, s.mark)
		if err := s.target.Barrier(ctx, b); err != nil {
			return fmt.Errorf("sink %s: barrier %d: %w", s.uid, b.ID, err)
		}
	}
	t.rest()
	t.deliver(snap)
	for _, out := range t.outputs {
		select {
		case out <- envelope{barrier: &b}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (t *task) allSinks() []*sink {
	if t.dead == nil {
		return t.sinks
	}
	return append(slices.Clone(t.sinks), &t.dead.sink)
}
