package window

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// Processing runs windows of time by processing time (clock.go) instead of event time: a row's time is that of its stamp, and the end of a
// window is a timer of elapsed time, so that a tick is journaled for it when nothing comes. A timer is set for when the wall clock will be
// there if nothing steps. It fires once the clock is there, before what comes with that stamp; after a step back it is set anew. Windows
// whose end a step forwards has passed are over, and fire. When event time ends (a drain, the end of a replay), all windows fire.
type Processing struct {
	inner     pipeline.Operator
	clock     clock
	table     *state.Table
	saved     [clockBytes]byte
	watermark int64 // that inner knows
	deadline  int64 // elapsed ns of what was last made or taken in phase Before
	ports     int
	unasked   bool // planted fault: a timer is not asked whether its window is still there
	// While timers fire: the stamp, the deadline before them, and how much of what out holds has its place.
	now    pipeline.Stamp
	base   int64
	before [2]int
	dead   int
}

// NewProcessing wraps a window that has a watermark. ports is how many outputs it has.
func NewProcessing(inner pipeline.Operator, ports int) *Processing {
	return &Processing{inner: inner, watermark: pipeline.MinWatermark, ports: ports}
}

// Open implements pipeline.Operator.
func (p *Processing) Open(tables pipeline.Tables) (err error) {
	if p.table, err = tables.Table(state.Spec{Name: "clock", Kind: state.Value, Type: "window.clock", Version: 1}); err != nil {
		return err
	}
	return p.inner.Open(tables)
}

// Restored implements pipeline.Operator.
func (p *Processing) Restored() error {
	b, ok := p.table.Get(nil)
	if ok && len(b) != clockBytes {
		return fmt.Errorf("%w: clock of %d bytes, want %d", ErrState, len(b), clockBytes)
	}
	if ok {
		p.clock, p.watermark = clockOf(b)
		if !p.clock.sane() || p.watermark != pipeline.MinWatermark && p.watermark > p.clock.ms() {
			return fmt.Errorf("%w: clock at %d ns, %d ns behind, after %d ns", ErrState, p.clock.time, p.clock.behind, p.clock.at)
		}
		copy(p.saved[:], b)
	}
	if err := p.inner.Restored(); err != nil {
		return err
	}
	if p.watermark != pipeline.MinWatermark { // what the engine does for event time
		out := pipeline.NewOut("", p.ports)
		out.At.Phase = pipeline.During
		p.inner.Watermark(p.watermark, out)
	}
	return nil
}

// Tick implements pipeline.Clocked.
func (p *Processing) Tick(now pipeline.Stamp) {
	p.clock.tick(now)
	if !p.waits() {
		p.clock.rest(now, max(p.watermark, -wallMax))
	}
	p.deadline = 0
	p.save()
}

// waits tells whether a window is open. Those that went by their TTL are not, wherever the batch that finds it out ends.
func (p *Processing) waits() bool {
	if s, ok := p.inner.(interface{ skip() }); ok {
		s.skip()
	}
	_, next := p.inner.Timers()
	return next != pipeline.NoDeadline
}

// waitsUntil tells whether the end of an open window is reached by an elapsed time.
func (p *Processing) waitsUntil(elapsed int64) bool {
	if !p.waits() {
		return false
	}
	due, _ := p.Timers()
	return due <= elapsed
}

// save writes the clock at every stamp: rows that a timer makes before the next one take their time from it, also behind a restart.
func (p *Processing) save() {
	if b := p.clock.bytes(p.watermark); b != p.saved {
		p.saved = b
		mustPut(p.table.Put(nil, b[:]))
	}
}

// Process implements pipeline.Operator.
func (p *Processing) Process(input int, r *pipeline.Row, out *pipeline.Out) {
	if r.Phase == pipeline.Before { // a timer made it, before this position's stamp
		p.clock.run(r.Deadline)
		p.deadline = max(p.deadline, r.Deadline)
		p.save()
	}
	row := *r
	row.Time = p.clock.ms()
	p.inner.Process(input, &row, out)
}

// Elapsed fires the windows whose ends processing time has reached. The timer that it was called for may be that of a window which has gone by its TTL
// since: without an end of a batch before it nobody has found that out. Then nothing happens, neither to the clock.
func (p *Processing) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	if !p.unasked && !p.waitsUntil(now.Elapsed) {
		return
	}
	p.clock.run(now.Elapsed)
	w := p.clock.ms()
	if w <= p.watermark {
		return
	}
	p.watermark = w
	p.now, p.base = now, p.deadline
	p.Resume(out)
	out.Completing(p)
	p.inner.Watermark(w, out)
	out.Completing(nil)
	p.Complete(out)
	p.save()
}

// Complete implements pipeline.Completer: what the window has emitted since Resume gets its place in elapsed time.
func (p *Processing) Complete(out *pipeline.Out) {
	for port, from := range p.before {
		for i := from; port < len(out.Ports) && i < len(out.Ports[port]); i++ {
			p.place(&out.Ports[port][i].At, p.now)
		}
	}
	for i := p.dead; i < len(out.Dead); i++ {
		p.place(&out.Dead[i].At, p.now)
		out.Dead[i].Row.At = out.Dead[i].At
	}
}

// Resume implements pipeline.Completer.
func (p *Processing) Resume(out *pipeline.Out) {
	for i := range min(len(p.before), len(out.Ports)) {
		p.before[i] = len(out.Ports[i])
	}
	p.dead = len(out.Dead)
}

// place turns the deadline of what was just emitted from ms of processing time into elapsed time.
func (p *Processing) place(at *pipeline.At, now pipeline.Stamp) {
	ago := min(max(0, p.clock.time-at.Deadline*1e6), now.Elapsed)
	at.Deadline = max(p.base, now.Elapsed-ago)
	p.deadline = max(p.deadline, at.Deadline)
}

// Watermark implements pipeline.Operator: event time plays no part but at its end.
func (p *Processing) Watermark(w int64, out *pipeline.Out) {
	if w == pipeline.MaxWatermark && out.At.Phase != pipeline.During {
		p.inner.Watermark(w, out)
	}
}

// Aged implements pipeline.Aging.
func (p *Processing) Aged(out *pipeline.Out) {
	if a, ok := p.inner.(pipeline.Aging); ok {
		a.Aged(out)
	}
}

// Timers implements pipeline.Operator.
func (p *Processing) Timers() (elapsed, eventTime int64) {
	_, next := p.inner.Timers()
	if next == pipeline.NoDeadline {
		return pipeline.NoDeadline, pipeline.NoDeadline
	}
	return p.clock.when(next), pipeline.NoDeadline
}
