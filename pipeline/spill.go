package pipeline

import "unsafe"

// Bound is how much a step holds of what it has emitted before the steps behind it get to work. It never shows in the results.
type Bound struct {
	Rows  int
	Bytes int // of slots and of text from state
}

// BoundDefault: some batches of the ordinary kind, which should go through in one piece, and little beside the state of a pipeline.
var BoundDefault = Bound{Rows: 4096, Bytes: 1 << 20}

const valueBytes = int(unsafe.Sizeof(Value{}))

// spill is what an Out knows of its bound.
type spill struct {
	to          func() // nil: there is no bound
	bound       Bound
	rows, bytes int   // held
	next        Bound // at which to spill
	kept        int   // slabs that a call in progress needs beyond a spill
	timers      bool  // a timer is being worked on, and no row
	completer   Completer
}

// Completer changes what a timer has emitted before others see it.
type Completer interface {
	// Complete is called before what was emitted goes on, Resume behind it: by then the rows are gone, or are as they were.
	Complete(*Out)
	Resume(*Out)
}

// Completing has c complete what the timers that fire now emit; nil: no more. What is emitted behind the last Yield is c's own affair.
func (o *Out) Completing(c Completer) { o.spill.completer = c }

func (s *spill) start() { s.rows, s.bytes, s.next = 0, 0, s.bound }

// Spill gives the Out a bound: to is called when it is passed, between two rows that came in or two that a timer made. It works off what was emitted, calls
// Drained or Undrained, and panics to end the batch. The engine calls it once.
func (o *Out) Spill(b Bound, to func()) {
	o.spill.to, o.spill.bound = to, Bound{max(b.Rows, 1), max(b.Bytes, 1)}
	o.spill.start()
}

// Full tells that the bound is passed.
func (o *Out) Full() bool {
	return o.spill.to != nil && (o.spill.rows >= o.spill.next.Rows || o.spill.rows > 0 && o.spill.bytes >= o.spill.next.Bytes)
}

// InTimer says whether the calls that follow are for timers, whose emissions may go on one by one. The engine calls it: what one row makes goes on as
// a whole or not at all.
func (o *Out) InTimer(is bool) { o.spill.timers = is }

// Yield lets the steps behind work off what a timer has emitted so far when that is much. An operator calls it between two emissions of a timer that may make
// many; SetTimer and SetDeadline do so by themselves. Slots that were taken in the same call are void behind it, those of emitted rows too, but
// for those before Keep. Views into state tables stay valid.
func (o *Out) Yield() {
	if !o.spill.timers || !o.Full() {
		return
	}
	c := o.spill.completer
	if c != nil {
		c.Complete(o)
	}
	o.spill.to()
	if c != nil {
		c.Resume(o)
	}
}

// Spilling has what was emitted worked off now.
func (o *Out) Spilling() { o.spill.to() }

// Keep has the slots that were taken so far outlive each Yield up to Kept, or the end of the batch.
func (o *Out) Keep() { o.spill.kept, o.slab = o.used, nil }

// Kept ends Keep.
func (o *Out) Kept() { o.spill.kept = 0 }

// Drained says that everything emitted has been worked off: the rows are dropped, their slots used again.
func (o *Out) Drained() {
	for i := range o.Ports {
		clear(o.Ports[i])
		o.Ports[i] = o.Ports[i][:0]
	}
	o.reclaim()
	o.spill.start()
}

// Undrained says that something is needed yet: everything stays, and the bound moves on by as much as it is.
func (o *Out) Undrained() {
	o.spill.next = Bound{o.spill.rows + o.spill.bound.Rows, o.spill.bytes + o.spill.bound.Bytes}
}
