package exec

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
)

const (
	// TapsMax is how many taps a pipeline has at once: each costs its tasks a copy of the rows that it shows.
	TapsMax = 8
	// tapRows wait for a tap's reader; further ones are dropped and counted. A batch or two, so that a reader that keeps up on average misses nothing.
	tapRows = 1024
)

// ErrTaps: the pipeline has as many taps as it may have.
var ErrTaps = errors.New("too many taps")

// ErrNoEdge: the pipeline has no such step or source.
var ErrNoEdge = errors.New("no such step or source")

// tapEdge is an edge that may be watched.
type tapEdge struct {
	name    string // of a source, STEP, or STEP.PORT
	source  bool
	task    *task
	step    *step                 // that makes it, alone; nil: a source or a region
	unit    int                   // the step's, in the task
	rows    func() []pipeline.Row // of the present batch; the task's goroutine asks
	columns []codec.Column
}

// watch is a tap as a task sees it.
type watch struct {
	edge *tapEdge
	tap  *Tap
}

// Tap shows the rows that leave steps and sources while the pipeline works. The pipeline never waits for its reader: what finds no room is
// dropped and counted.
type Tap struct {
	rows    chan TappedRow
	dropped atomic.Uint64
	ended   <-chan struct{} // the pipeline's
	leave   func()
}

// TappedRow is a copy of a row.
type TappedRow struct {
	From    string         // STEP, STEP.PORT or the source
	Columns []codec.Column // of its slots
	At      pipeline.At
	Time    int64 // event time ms, pipeline.NoTime if none
	Slots   []pipeline.Value
}

// Next waits for a row. ErrStopped: the pipeline has ended, and everything was read.
func (t *Tap) Next(ctx context.Context) (TappedRow, error) {
	select {
	case r := <-t.rows:
		return r, nil
	default:
	}
	select {
	case r := <-t.rows:
		return r, nil
	case <-ctx.Done():
		return TappedRow{}, ctx.Err()
	case <-t.ended:
	}
	select {
	case r := <-t.rows:
		return r, nil
	default:
		return TappedRow{}, ErrStopped
	}
}

// Waiting is how many rows can be read at once.
func (t *Tap) Waiting() int { return len(t.rows) }

// Dropped counts the rows that found no room.
func (t *Tap) Dropped() uint64 { return t.dropped.Load() }

// Close ends the tap. Repeating it is harmless.
func (t *Tap) Close() { t.leave() }

// tapping is what a pipeline's taps share. mu guards taps and the lists of the tasks.
type tapping struct {
	edges []*tapEdge
	mu    sync.Mutex
	taps  int
}

// Tap begins to watch edges: each name is that of a source, a step, or STEP.PORT; sources adds those that the pipeline reads. It may be called
// before Run. ErrNoEdge, ErrTaps.
func (p *Pipeline) Tap(names []string, sources bool) (*Tap, error) {
	edges, err := p.tapping.find(names, sources)
	if err != nil {
		return nil, err
	}
	t := &Tap{rows: make(chan TappedRow, tapRows), ended: p.ended}
	s := &p.tapping
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taps >= TapsMax {
		return nil, fmt.Errorf("%w: the pipeline has %d", ErrTaps, TapsMax)
	}
	s.taps++
	for _, e := range edges {
		e.task.watched(func(list []watch) []watch { return append(list, watch{e, t}) })
	}
	t.leave = sync.OnceFunc(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.taps--
		for _, e := range edges {
			e.task.watched(func(list []watch) []watch {
				return slices.DeleteFunc(list, func(w watch) bool { return w.tap == t })
			})
		}
	})
	return t, nil
}

func (s *tapping) find(names []string, sources bool) (edges []*tapEdge, err error) {
	for _, e := range s.edges {
		if sources && e.source || slices.Contains(names, e.name) {
			edges = append(edges, e)
		}
	}
	for _, n := range names {
		if !slices.ContainsFunc(s.edges, func(e *tapEdge) bool { return e.name == n }) {
			var known []string
			for _, e := range s.edges {
				known = append(known, e.name)
			}
			return nil, fmt.Errorf("%w: %q; there are %s", ErrNoEdge, n, strings.Join(known, ", "))
		}
	}
	return edges, nil
}

// watched replaces the list of watches; the task may be reading the old one. The caller holds tapping.mu.
func (t *task) watched(change func([]watch) []watch) {
	var list []watch
	if old := t.watches.Load(); old != nil {
		list = slices.Clone(*old)
	}
	if list = change(list); len(list) == 0 {
		t.watches.Store(nil)
		return
	}
	t.watches.Store(&list)
}

// show offers the rows that some edges hold of the batch to those who watch. It never waits.
func (t *task) show(which func(*tapEdge) bool) {
	list := t.watches.Load()
	if list == nil {
		return
	}
	for _, w := range *list {
		if !which(w.edge) {
			continue
		}
		rows := w.edge.rows()
		for i := range rows {
			if !w.tap.offer(w.edge, &rows[i]) {
				w.tap.dropped.Add(uint64(len(rows) - i))
				break
			}
		}
	}
}

// offer hands a copy of a row over if there is room.
func (t *Tap) offer(e *tapEdge, r *pipeline.Row) bool {
	if len(t.rows) == cap(t.rows) {
		return false // several tasks may offer: the select below has the last word
	}
	select {
	case t.rows <- TappedRow{From: e.name, Columns: e.columns, At: r.At, Time: r.Time, Slots: slices.Clone(r.Slots)}:
		return true
	default:
		return false
	}
}

// watchable notes the edges that may be watched, when every step has been made.
func (a *assembly) watchable() {
	s := &a.p.tapping
	for i, src := range a.graph.Sources {
		if at, made := a.sources[i]; made {
			e := &tapEdge{name: src.Name, source: true, task: a.p.tasks[at.task], rows: func() []pipeline.Row { return at.port(0).rows }}
			for _, c := range src.Columns {
				e.columns = append(e.columns, codec.Column{Name: c.Name, Slot: c.Slot})
			}
			s.edges = append(s.edges, e)
		}
	}
	for i, step := range a.graph.Steps {
		at := a.steps[i]
		for port := range step.Ports {
			e := &tapEdge{name: step.UID, task: a.p.tasks[at.task], step: at.step, unit: at.unit, rows: func() []pipeline.Row { return at.port(port).rows }}
			if at.group != nil { // in a region the instances' rows are merged only for who reads them
				view := &gathered{group: at.group, port: port}
				e.rows = func() []pipeline.Row { view.gather(regionFault{}); return view.edge.rows }
			}
			if port < len(step.PortNames) && step.PortNames[port] != "" {
				e.name += "." + step.PortNames[port]
			}
			if port < len(step.Names) {
				for slot, name := range step.Names[port] {
					if name != "" {
						e.columns = append(e.columns, codec.Column{Name: name, Slot: slot})
					}
				}
			}
			s.edges = append(s.edges, e)
		}
	}
}
