package main

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// oracle follows what the receiver holds, stream by stream, and compares it with the known answers. It reads only what the receiver
// has committed. The stage's loop owns it; counts may be read by others.
type oracle struct {
	receiver *receiver.Receiver
	rec      *recording
	streams  []*stream
	known    map[string]bool // sinks of the config that were seen
	discard  bool            // remove what was compared from the receiver's file
}

// stream compares one sink.
type stream struct {
	sink  string
	parse func([]byte, *recording) (*result, error)
	want  func(pass int64) *answer // nil answer: later passes of the sink are only counted

	name            uplink.Stream
	generation, seq uint64

	mu         sync.Mutex
	pass       int64
	now        *answer
	got        map[string]bool
	gotOrdered map[int]int // place -> how many
	total      tally
	wrong      []string // the first few, for the report
}

// tally of a stream over all passes that were compared, and the present one.
type tally struct {
	expected, arrived, lost, duplicate, wrong, passes int
}

func newOracle(r *receiver.Receiver, rec *recording, a *answers, discard bool) *oracle {
	always := func(a *answer) func(int64) *answer { return func(int64) *answer { return a } }
	first := func(a *answer) func(int64) *answer {
		return func(pass int64) *answer {
			if pass > 0 {
				return nil // an alarm that is raised at the end of a pass changes the next one
			}
			return a
		}
	}
	o := &oracle{receiver: r, rec: rec, known: map[string]bool{}, discard: discard}
	for _, s := range []*stream{
		{sink: "windows", parse: parseWindow, want: always(a.windows)},
		{sink: "refined", parse: parseWindow, want: always(a.refined)},
		{sink: "too-late", parse: parseReading, want: always(a.late)},
		{sink: "changes", parse: parseReading, want: a.changes},
		{sink: "jams", parse: parseJam, want: first(a.jams)},
	} {
		s.begin(0)
		o.streams = append(o.streams, s)
	}
	return o
}

// read takes in what the receiver committed since the last call.
func (o *oracle) read() error {
	names, err := o.receiver.Streams()
	if err != nil {
		return err
	}
	for _, name := range names {
		full, err := wire.ParseStream(name)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(o.streams, func(s *stream) bool { return s.sink == full.Sink })
		if i < 0 {
			return fmt.Errorf("a stream arrived that the config does not have: %s", name)
		}
		s := o.streams[i]
		if o.known[s.sink] && s.name != full {
			return fmt.Errorf("sink %s arrived under a second name: %s and %s", s.sink, s.name, full)
		}
		o.known[s.sink], s.name = true, full
		if err := o.follow(s); err != nil {
			return err
		}
	}
	return nil
}

func (o *oracle) follow(s *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.pass
	err := o.receiver.RecordsAfter(s.name, s.generation, s.seq, func(generation uint64, l wire.Line) error {
		return s.take(generation, l, o.rec)
	})
	if err == nil && o.discard && s.pass > before {
		err = o.receiver.Remove(s.name, s.generation, s.seq)
	}
	return err
}

// take looks at one record. mu is held.
func (s *stream) take(generation uint64, l wire.Line, rec *recording) error {
	if l.Seq != s.seq+1 || s.generation != 0 && generation != s.generation {
		s.complain("sequence %d.%d follows %d.%d", generation, l.Seq, s.generation, s.seq)
	}
	s.generation, s.seq = generation, l.Last
	if l.Gap {
		s.complain("gap %d to %d: %s", l.Seq, l.Last, l.Reason)
		return nil
	}
	r, err := s.parse(l.Data, rec)
	if err != nil || r == nil {
		return err
	}
	for r.pass > s.pass { // streams go pass by pass: this one is complete
		s.end()
		s.begin(s.pass + 1)
	}
	s.total.arrived++
	switch want := s.wanted(r); {
	case s.got[r.id]:
		s.total.duplicate++
		s.note("twice: %s", r.id)
		return nil
	case want == nil && s.now != nil:
		s.complain("not expected: %s", r.id)
	case want != nil && !want.equal(r):
		s.complain("%s: %v, want %v", r.id, r.values, want.values)
	case want != nil && want.order >= 0:
		s.gotOrdered[want.order]++
	}
	s.got[r.id] = true
	return nil
}

func (s *stream) wanted(r *result) *result {
	if s.now == nil || r.pass != s.pass {
		return nil
	}
	return s.now.want[r.id]
}

func (s *stream) begin(pass int64) {
	s.pass, s.now, s.got, s.gotOrdered = pass, s.want(pass), map[string]bool{}, map[int]int{}
}

// end counts what a complete pass lacks. mu is held.
func (s *stream) end() {
	s.total.passes++
	if s.now == nil {
		return
	}
	s.total.expected += len(s.now.want)
	for _, id := range slices.Sorted(maps.Keys(s.now.want)) {
		if !s.got[id] {
			s.total.lost++
			s.note("lost: %s", id)
		}
	}
}

func (s *stream) complain(format string, args ...any) {
	s.total.wrong++
	s.note(format, args...)
}

func (s *stream) note(format string, args ...any) {
	if len(s.wrong) < 5 {
		s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
	}
}

// missing counts what should have arrived before the newest record of the present pass and did not. mu is held.
func (s *stream) missing() (n int) {
	if s.now == nil || len(s.gotOrdered) == 0 {
		return 0
	}
	newest := slices.Max(slices.Collect(maps.Keys(s.gotOrdered)))
	for _, w := range s.now.want {
		if w.order >= 0 && w.order < newest {
			n++
		}
	}
	for order, got := range s.gotOrdered {
		if order < newest {
			n -= got
		}
	}
	return n
}

// counts of all streams, as they stand.
func (o *oracle) counts() (t tally, windows int) {
	for _, s := range o.streams {
		s.mu.Lock()
		t.arrived += s.total.arrived
		t.duplicate += s.total.duplicate
		t.wrong += s.total.wrong
		t.lost += s.total.lost + s.missing()
		if s.sink == "windows" || s.sink == "refined" {
			windows += s.total.arrived
		}
		s.mu.Unlock()
	}
	return t, windows
}

// finish ends the last pass of every stream.
func (o *oracle) finish() {
	for _, s := range o.streams {
		s.mu.Lock()
		s.end()
		s.mu.Unlock()
	}
}

func (t *tally) good() bool { return t.lost == 0 && t.duplicate == 0 && t.wrong == 0 }
