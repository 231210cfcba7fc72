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
	entry *entry
	me    uint8
	inner *edge // instead of entry
	next  int
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
	_      [64]byte // no cache line with the next one: feed is written for each row
}

// begin takes the locks and goes to the start of the batch; end or unlock comes later.
func (s *instance) begin(ticks []pipeline.Tick) {
	s.lock()
	s.out.Reset()
	s.ticks, s.ti, s.mi = ticks, 0, 0
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
	for s.feed.more() {
		s.advanceTo(s.feed.rows()[s.feed.next].At)
		s.work()
	}
	s.end()
	return nil
}
