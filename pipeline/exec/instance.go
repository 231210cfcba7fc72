package exec

import (
	"runtime/debug"

	"github.com/weirstream/weir/pipeline"
)

// entry is the input of a keyed region for one batch: the rows of all instances, in the total order of the input.
type entry struct {
	rows   []pipeline.Row
	from   []uint8 // input of each row, where several were merged; nil: the only one
	owners []uint8 // instance of each row
	owned  []int   // per instance: how many
	marks  []pipeline.Mark
}

// feed is where an instance of a step takes its rows from: its own among those of the region's entry, or what the step before it in the
// same instance made.
type feed struct {
	entry  *entry
	me     uint8
	inner  *edge // instead of entry
	next   int
	key    []int  // slots of the key, with one input
	far    bool   // it is the first of its instance that looks at the rows, which may come from another core
	warmed uint64 // see warmSlots
}

// start goes back to the first row of a batch.
func (f *feed) start() {
	f.next = 0
	if f.inner == nil {
		f.skip()
	}
}

// skip moves to the next row of this instance.
func (f *feed) skip() {
	for f.next < len(f.entry.owners) && f.entry.owners[f.next] != f.me {
		f.next++
	}
}

func (f *feed) rows() []pipeline.Row {
	if f.inner != nil {
		return f.inner.rows
	}
	return f.entry.rows
}

func (f *feed) more() bool { return f.next < len(f.rows()) }

// tie is that of the next row.
func (f *feed) tie() pipeline.Tie {
	if f.inner != nil {
		return f.inner.ties[f.next]
	}
	return pipeline.InputTie(f.next)
}

func (f *feed) take() (in int, r *pipeline.Row) {
	i := f.next
	f.next++
	if f.inner != nil {
		return 0, &f.inner.rows[i]
	}
	if f.entry.from != nil {
		in = int(f.entry.from[i])
	}
	f.skip()
	return in, &f.entry.rows[i]
}

func (f *feed) marks() []pipeline.Mark {
	if f.inner != nil {
		return f.inner.marks
	}
	return f.entry.marks
}

// instance is one instance of a step of a keyed region. It works like step.run, in calls that the region may put between those of the other
// instances: begin, then work for each row with advanceTo before it, then end.
type instance struct {
	*step
	ties   *pipeline.Ties // of all steps of the instance
	feed   feed
	ticks  []pipeline.Tick
	ti, mi int
	due    pipeline.Position // of the next of ticks and marks, while run walks
	_      [64]byte          // no cache line with the next one: feed is written for each row
}

// begin takes the locks and goes to the start of the batch; end or unlock comes later.
func (s *instance) begin(ticks []pipeline.Tick) {
	s.lock()
	s.out.Reset()
	s.ticks, s.ti, s.mi, s.due = ticks, 0, 0, 0
	s.feed.start()
}

// advanceTo applies what time does before a row at that place.
func (s *instance) advanceTo(at pipeline.At) {
	if s.timeless {
		return
	}
	s.ti, s.mi = s.advanceFrom(s.ticks, s.feed.marks(), s.ti, s.mi, at)
	if at.Phase == pipeline.Before {
		s.elapsed(at.Pos, pipeline.Stamp{Elapsed: at.Deadline - 1, Wall: s.stamp.Wall, Trusted: s.stamp.Trusted})
	}
}

// work takes the next row.
func (s *instance) work() {
	tie := s.feed.tie()
	in, r := s.feed.take()
	s.out.At = r.At
	s.out.Cause(tie)
	s.out.Counters.In++
	s.nth.countTied(r, tie, s.feed.entry.rows)
	s.step.process(in, r)
}

// end applies the rest of the ticks and marks and hands the outputs over.
func (s *instance) end() {
	s.advanceTo(pipeline.At{Pos: ^pipeline.Position(0), Phase: pipeline.After})
	s.finish(s.feed.marks())
}

// run is a whole batch of one instance.
func (s *instance) run(ticks []pipeline.Tick) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = s.failed(r, debug.Stack())
		}
	}()
	s.begin(ticks)
	defer s.unlock()
	if inner := s.feed.inner; inner == nil {
		s.walkOwned()
	} else {
		s.walkInner(inner)
	}
	s.end()
	return nil
}

// walkOwned works through the instance's rows of the entry.
func (s *instance) walkOwned() {
	rows, from, me := s.feed.entry.rows, s.feed.entry.from, s.feed.me
	owners := s.feed.entry.owners
	for i, owner := range owners {
		if i%warmRows == 0 && s.feed.far {
			end := min(i+warmRows, len(rows))
			s.feed.warmed += warmSlots(rows[i:end], owners[i:end], me, s.feed.key)
		}
		if owner != me {
			continue
		}
		in := 0
		if from != nil {
			in = int(from[i])
		}
		s.handle(in, &rows[i], pipeline.InputTie(i))
	}
}

// walkInner works through what the step before made.
func (s *instance) walkInner(inner *edge) {
	ties := inner.ties[:len(inner.rows)]
	for i := range inner.rows {
		s.handle(0, &inner.rows[i], ties[i])
	}
}

func (s *instance) handle(in int, r *pipeline.Row, tie pipeline.Tie) {
	if !s.timeless && (r.Pos >= s.due || r.Phase == pipeline.Before) {
		s.advanceTo(r.At)
		s.due = s.nextDue()
	}
	s.out.At = r.At
	s.out.Cause(tie)
	s.out.Counters.In++
	s.nth.countTied(r, tie, s.feed.entry.rows)
	if len(s.skips) > 0 {
		s.step.process(in, r)
		return
	}
	s.row = r
	s.op.Process(in, r, s.out)
	s.row = nil
}

// nextDue is the position before which time does nothing: that of the next tick or mark.
func (s *instance) nextDue() pipeline.Position {
	due := ^pipeline.Position(0)
	if s.ti < len(s.ticks) {
		due = s.ticks[s.ti].Pos
	}
	if marks := s.feed.marks(); s.mi < len(marks) {
		due = min(due, marks[s.mi].Pos)
	}
	return due
}
