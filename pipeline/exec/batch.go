package exec

import (
	"context"
	"errors"
	"io"

	"github.com/weirstream/weir/pipeline"
)

// Input is one numbered batch as the journal reader cuts it: a run of entries and the column of ticks over it. It is
// immutable; every source task gets the same one and picks its own entries.
type Input struct {
	Number      uint64
	First, Last pipeline.Position
	Entries     []pipeline.Entry
	Ticks       []pipeline.Tick
	// Drain ends event time behind the batch: sources send MaxWatermark.
	Drain bool
}

// envelope is what travels between tasks: a batch or a barrier, never both.
type envelope struct {
	inputs  []*Input // from the reader: batches behind one another, which ahead takes apart
	input   *Input   // one of them; downstream tasks get it too, for number and ticks
	cell    *cell    // where it is decoded ahead; nil: it is not
	edges   []edge   // from an upstream task: one per crossing edge, in the order of the plan
	dead    []pipeline.DeadRow
	barrier *pipeline.Barrier
}

// cutTicks makes the column of ticks: one where the stamp changes. The first entry of a batch always has one.
func cutTicks(entries []pipeline.Entry, into []pipeline.Tick) []pipeline.Tick {
	var last pipeline.Stamp
	for i := range entries {
		if i == 0 || entries[i].Stamp != last {
			last = entries[i].Stamp
			into = append(into, pipeline.Tick{Pos: entries[i].Pos, Stamp: last})
		}
	}
	return into
}

// request asks the reader to put something between two batches. It is withdrawn when ctx ends before any task took it, and else
// goes to all of them: an error means that nothing was put in.
type request struct {
	ctx     context.Context
	barrier uint64
	drain   bool
	halt    *bool      // not nil: read no further, or go on
	done    chan error // holds the outcome
}

// reader cuts batches from the journal and puts barriers between them. Its goroutine owns everything in it.
type reader struct {
	blocks   pipeline.BlockReader
	outputs  []chan<- envelope
	requests <-chan request
	rowsMax  int
	number   uint64
	position pipeline.Position
	halted   bool // nothing is read; barriers are still put in
	seen     func(*Input)
}

// run reads until ctx ends, the journal fails, or a finite journal (replay) ends with io.EOF.
func (r *reader) run(ctx context.Context) error {
	blocks := make(chan *pipeline.Block, 1) // one ahead: decoding overlaps the wait for the disk
	failed := make(chan error, 1)
	fetch, stop := context.WithCancel(ctx)
	defer stop()
	go r.fetch(fetch, blocks, failed) // ends with fetch; run waits for it through failed
	defer func() { stop(); <-failed }()
	for {
		next := blocks
		if r.halted {
			next = nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case req := <-r.requests:
			if req.halt != nil {
				r.halted = *req.halt
				req.done <- nil
				continue
			}
			if err := r.serve(ctx, req); err != nil {
				return err
			}
		case b, open := <-next:
			if !open {
				return r.end(ctx, failed)
			}
			if err := r.cut(ctx, b); err != nil {
				return err
			}
		}
	}
}

// end is reached when no more blocks come. A finite journal is drained and the tasks are told that nothing follows.
func (r *reader) end(ctx context.Context, failed chan error) error {
	err := <-failed
	failed <- err // for the waiting defer
	if !errors.Is(err, io.EOF) {
		return err
	}
	r.number++
	if err := r.send(ctx, envelope{inputs: []*Input{{Number: r.number, First: r.position + 1, Last: r.position, Drain: true}}}); err != nil {
		return err
	}
	for _, out := range r.outputs {
		close(out)
	}
	return nil
}

func (r *reader) fetch(ctx context.Context, blocks chan<- *pipeline.Block, failed chan<- error) {
	for {
		b, err := r.blocks.Next(ctx)
		if err != nil {
			close(blocks)
			failed <- err
			return
		}
		select {
		case blocks <- b:
		case <-ctx.Done():
			close(blocks)
			failed <- ctx.Err()
			return
		}
	}
}

// serve carries a request out. Its error ends the reader; that of a withdrawn request goes to who asked.
func (r *reader) serve(ctx context.Context, req request) error {
	e := envelope{barrier: &pipeline.Barrier{ID: req.barrier, Position: r.position}}
	if req.drain {
		e = envelope{inputs: []*Input{{Number: r.number + 1, First: r.position + 1, Last: r.position, Drain: true}}}
	}
	select {
	case r.outputs[0] <- e:
	case <-req.ctx.Done():
		req.done <- req.ctx.Err()
		return nil
	case <-ctx.Done():
		req.done <- ctx.Err()
		return ctx.Err()
	}
	if req.drain {
		r.number++
	}
	err := r.sendTo(ctx, r.outputs[1:], e)
	req.done <- err
	return err
}

// batchBytes of payload end a batch: what decoders make of it is held at once, and payloads of many records grow when they are decoded.
const batchBytes = 1 << 20

// length tells how many entries make the next batch.
func (r *reader) length(rest []pipeline.Entry) int {
	bytes := 0
	for n := range rest[:min(len(rest), r.rowsMax)] {
		if bytes += len(rest[n].Payload); bytes > batchBytes && n > 0 {
			return n
		}
	}
	return min(len(rest), r.rowsMax)
}

// cut sends a block as batches of at most rowsMax entries and about batchBytes: all of them at once, since a task that gets them one by one wakes the
// reader and is woken by it for each.
func (r *reader) cut(ctx context.Context, b *pipeline.Block) error {
	var all []*Input
	for rest := b.Entries; len(rest) > 0; {
		n := r.length(rest)
		in := &Input{First: rest[0].Pos, Last: rest[n-1].Pos, Entries: rest[:n], Ticks: cutTicks(rest[:n], nil)}
		rest = rest[n:]
		r.number++
		in.Number = r.number
		r.position = in.Last
		all = append(all, in)
	}
	if len(all) == 0 {
		return nil
	}
	if err := r.send(ctx, envelope{inputs: all}); err != nil {
		return err
	}
	for _, in := range all {
		r.seen(in)
	}
	return nil
}

func (r *reader) send(ctx context.Context, e envelope) error { return r.sendTo(ctx, r.outputs, e) }

func (r *reader) sendTo(ctx context.Context, outputs []chan<- envelope, e envelope) error {
	for _, out := range outputs {
		select {
		case out <- e:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
