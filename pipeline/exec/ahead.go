package exec

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/weirstream/weir/pipeline"
)

// ahead is the journal's input of a task: batches and barriers in the order in which the reader sent them. With helpers it has the batches that wait
// there decoded before the task comes to them, in pieces that are the filler of the pool. What decoding makes of a record depends on
// that record alone, so it may run past a barrier and past a batch that fails: neither sees anything of it. The task's goroutine owns all of
// it, but what a cell lends to the helpers.
type ahead struct {
	in      <-chan envelope
	queue   []envelope // taken from in, each of one batch or barrier
	ended   bool       // in is closed
	pool    *pool      // nil: nothing is done ahead
	sources []*source  // that decode in lanes
	cells   []*cell    // a ring
	begun   uint64     // cells lent so far, never an int: one of 32 bits is spent within weeks. The next cell is begun % len(cells)
	given   uint64     // cells that the task is done with
	first   atomic.Uint32
	least   int // records of a batch that is worth it
	fault   regionFault
}

// aheadMax is how many batches are decoded at most before the task comes to them: enough to fill the waits of a batch, little to hold.
const aheadMax = 3

// pieceRecords is how many records a piece of the filler has: some ten microseconds of work, which is how long a fork may have to wait for it.
const pieceRecords = 64

// piecesMax bounds the pieces of a batch: their number is half of a word.
const piecesMax = 1 << 12

// cell holds a batch that is decoded ahead.
type cell struct {
	// word is what helpers look at: the number of times that the cell was lent in the upper half, then the count of pieces, then the next one that
	// nobody has taken. Taking one is a compare and swap, so that a look from an earlier time takes nothing.
	word     atomic.Uint64
	left     atomic.Int32 // pieces that have not ended
	lent     uint32
	in       *Input
	size     int       // records of a piece
	readings []reading // of the entries of all sources
	failed   []error   // per piece
	scratch  [][]scratch
}

func newAhead(in <-chan envelope, fault regionFault) *ahead {
	return &ahead{in: in, least: aloneRows, fault: fault}
}

// divide has what waits decoded by the workers of p, for those of the sources whose decoders do not go by the order of the messages.
func (a *ahead) divide(p *pool, all []*source) {
	for _, s := range all {
		if len(s.lanes) > 1 {
			a.sources = append(a.sources, s)
		}
	}
	if p == nil || p.workers() < 2 || len(a.sources) == 0 {
		return
	}
	a.pool = p
	for range aheadMax + 1 {
		c := &cell{scratch: make([][]scratch, len(a.sources))}
		for i := range c.scratch {
			c.scratch[i] = make([]scratch, p.workers())
			for w := range c.scratch[i] {
				runtime.KeepAlive(separate())
				c.scratch[i][w] = newScratch(pipeline.NewOut("", 0))
			}
		}
		a.cells = append(a.cells, c)
	}
	if a.fault.eager {
		a.least = 1
	}
	p.filler = a.piece
}

// most is how many batches may wait in the queue before next takes more of them. Without helpers none: what waits only grows cold.
func (a *ahead) most() int {
	if a.pool == nil {
		return 0
	}
	return aheadMax + 1
}

// next gives the next batch or barrier; false: the journal has ended. It takes along what waits in the channel, up to what may be decoded ahead.
func (a *ahead) next(ctx context.Context) (envelope, bool, error) {
	if a.pool != nil && len(a.in) == 0 && len(a.queue) < a.most() {
		runtime.Gosched() // the workers leave no core to the reader but by their leave
	}
	for !a.ended && len(a.queue) < max(1, a.most()) {
		if len(a.queue) == 0 {
			select {
			case e, open := <-a.in:
				a.accept(e, open)
			case <-ctx.Done():
				return envelope{}, false, ctx.Err()
			}
			continue
		}
		select {
		case e, open := <-a.in:
			a.accept(e, open)
			continue
		default:
		}
		break
	}
	if len(a.queue) == 0 {
		return envelope{}, false, nil
	}
	a.lend()
	if a.fault.unordered && len(a.queue) > 1 && a.queue[0].barrier == nil && a.queue[1].barrier == nil {
		a.queue[0], a.queue[1] = a.queue[1], a.queue[0]
	}
	e := a.queue[0]
	a.queue[0] = envelope{}
	if a.queue = a.queue[1:]; len(a.queue) == 0 {
		a.queue = nil
	}
	return e, true, nil
}

// accept puts what the reader sent into the queue, batch by batch.
func (a *ahead) accept(e envelope, open bool) {
	if !open {
		a.ended = true
		return
	}
	if e.barrier != nil {
		if a.fault.overtaking {
			a.queue = append([]envelope{e}, a.queue...)
			return
		}
		a.queue = append(a.queue, e)
		return
	}
	for _, in := range e.inputs {
		a.queue = append(a.queue, envelope{input: in})
	}
}

// lend gives batches of the queue to the helpers, as long as there are cells.
func (a *ahead) lend() {
	if a.pool == nil {
		return
	}
	for i := range a.queue {
		e := &a.queue[i]
		if e.input == nil || e.cell != nil || len(e.input.Entries) < a.least {
			continue
		}
		if a.begun-a.given == uint64(len(a.cells)) {
			return
		}
		e.cell = a.cells[a.begun%uint64(len(a.cells))]
		a.begun++
		e.cell.lend(e.input, a.fault)
		a.pool.rouse()
	}
}

// lend has the batch decoded in pieces.
func (c *cell) lend(in *Input, fault regionFault) {
	c.in, c.size = in, max(pieceRecords, (len(in.Entries)+piecesMax-1)/piecesMax)
	if fault.eager {
		c.size = max(1, (len(in.Entries)+piecesMax-1)/piecesMax)
	}
	if cap(c.readings) < len(in.Entries) {
		c.readings = make([]reading, len(in.Entries))
	}
	c.readings = c.readings[:len(in.Entries)]
	pieces := (len(in.Entries) + c.size - 1) / c.size
	if cap(c.failed) < pieces {
		c.failed = make([]error, pieces)
	}
	c.failed = c.failed[:pieces]
	clear(c.failed)
	c.lent++
	c.left.Store(int32(pieces))
	c.word.Store(uint64(c.lent)<<32 | uint64(pieces)<<16)
}

// take takes a piece that nobody has.
func (c *cell) take() (piece int, lent uint32, ok bool) {
	for {
		w := c.word.Load()
		if w&0xffff == w>>16&0xffff {
			return 0, 0, false
		}
		if c.word.CompareAndSwap(w, w+1) {
			return int(w & 0xffff), uint32(w >> 32), true
		}
	}
}

// piece decodes a piece of the earliest batch that has one left.
func (a *ahead) piece(worker int) bool {
	first := int(a.first.Load())
	for i := range a.cells {
		c := a.cells[(first+i)%len(a.cells)]
		if piece, lent, ok := c.take(); ok {
			a.decode(c, piece, lent, worker)
			return true
		}
	}
	return false
}

func (a *ahead) decode(c *cell, piece int, lent uint32, worker int) {
	from := piece * c.size
	c.failed[piece] = a.read(c, from, min(from+c.size, len(c.in.Entries)), lent, worker)
	if c.left.Add(-1) == 0 {
		a.pool.wake(0)
	}
}

// read decodes some entries of a batch as that worker.
func (a *ahead) read(c *cell, from, to int, lent uint32, worker int) (err error) {
	for i, s := range a.sources {
		l := s.lanes[worker]
		m := &c.scratch[i][worker]
		if m.lent != lent { // cleared by who wrote it, in whose cache it is
			m.lent = lent
			m.out.Reset()
			m.forget()
		}
		l.into(m)
		if err = l.readAll(c.in.Entries[from:to], c.readings[from:to]); err != nil {
			return fmt.Errorf("source %s, positions %d to %d: %w", s.plan.Name, c.in.First, c.in.Last, err)
		}
	}
	return nil
}

// open waits until a batch that next gave is decoded, and has the sources take it from there.
func (a *ahead) open(c *cell) error {
	a.pool.await(func() bool { return c.left.Load() == 0 })
	for _, err := range c.failed {
		if err != nil {
			return err
		}
	}
	for _, s := range a.sources {
		s.readings = c.readings
	}
	return nil
}

// close makes the cell of a batch free when the batch has been worked through and nobody reads its slots any more.
func (a *ahead) close(c *cell) {
	a.given++
	a.first.Store(uint32(a.given % uint64(len(a.cells))))
	for _, s := range a.sources {
		s.readings = nil
	}
	if a.begun == a.given { // nothing waits: others may need the memory
		a.each(func(m *scratch) { m.out.Release() })
	}
}

// each calls f for the memory of all cells. Only while no cell is lent.
func (a *ahead) each(f func(m *scratch)) {
	for _, c := range a.cells {
		for i := range c.scratch {
			for w := range c.scratch[i] {
				runtime.KeepAlive(separate())
				f(&c.scratch[i][w])
			}
		}
	}
}

// shrink lets go of what a burst has left, when nothing is decoded ahead.
func (a *ahead) shrink() {
	if a.begun > a.given {
		return
	}
	for _, c := range a.cells {
		c.readings, c.failed, c.in = nil, nil, nil
	}
	a.each(func(m *scratch) { m.out.Shrink(); m.parts, m.odds = []part{}, nil })
}
