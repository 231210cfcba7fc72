package join

import (
	"encoding/binary"
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// WindowedConfig sets up a window join: rows of one key are partners when they lie in one window.
type WindowedConfig struct {
	Sides   [2]Side
	Type    Type
	Windows Windows
	Output  Output
	MaxKeys int // rows held at once; 0: no limit
}

// Validate names the field that is wrong.
func (c WindowedConfig) Validate() error {
	switch {
	case c.MaxKeys < 0:
		return fmt.Errorf("%w: max_keys is %d, want 0 or more", ErrConfig, c.MaxKeys)
	case c.Type > Full:
		return fmt.Errorf("%w: %s", ErrConfig, c.Type)
	}
	if err := c.Windows.validate(); err != nil {
		return err
	}
	return c.Output.validate(c.Sides)
}

// Windowed joins the rows of both inputs that lie in one window of event time. A window fires once, when the watermark reaches its end:
// each left row with each right one, both in the order of (event time, arrival); where one input has no row in it, those of the other come
// out alone if the type keeps them. The time is the window's end less 1. Windows fire in the order (end, start, key bytes). Sessions are
// those of both inputs together. A row that comes behind the end of a window is late for it: it goes to LatePort once for each. A row with
// a null in its key has no partner, ever.
type Windowed struct {
	c         WindowedConfig
	store     store
	far       *farWindowed // not nil: the rows are there
	starts    *state.Table // "next"; nil where windows do not overlap
	emitter   emitter
	watermark int64
	key       []byte
	rows      [][]pipeline.Value // right rows of the window that fires
	// forgetsNext is a mistake planted by a test: which window is next is not restored.
	forgetsNext bool
}

// NewWindowed makes a window join from a valid config.
func NewWindowed(c WindowedConfig) *Windowed {
	return &Windowed{c: c, store: newStore(c.Sides, 0), emitter: emitter{Output: c.Output}, watermark: pipeline.MinWatermark}
}

// Open implements pipeline.Operator.
func (j *Windowed) Open(tables pipeline.Tables) (err error) {
	if err = j.store.open(tables, j.c.MaxKeys); err != nil {
		return err
	}
	j.openFar(j.store.beside())
	if !j.c.Windows.overlap() {
		return nil
	}
	j.starts, err = tables.Table(state.Spec{Name: "next", Kind: state.Value, Type: "join.next", Version: 1})
	return err
}

// Restored rebuilds the order of the rows held, the sessions, and which window of each key is next.
func (j *Windowed) Restored() error {
	if state.LargeBuilt && j.far != nil {
		return j.far.restored(j)
	}
	if err := j.store.restored(); err != nil {
		return err
	}
	for _, g := range j.store.groups {
		switch {
		case j.c.Windows.GapMs > 0:
			g.sessions = j.c.Windows.sessions(g.rows)
		default:
			g.next = j.c.Windows.first(g.first())
			if err := j.restoreNext(g); err != nil {
				return err
			}
		}
		j.place(g)
	}
	return nil
}

func (j *Windowed) restoreNext(g *group) error {
	next, ok, err := j.savedNext(g.key)
	if ok {
		g.next, g.written = next, true
	}
	return err
}

// savedNext is what the table of next windows has of a key.
func (j *Windowed) savedNext(key []byte) (next int64, ok bool, err error) {
	if j.starts == nil || j.forgetsNext {
		return 0, false, nil
	}
	val, ok := j.starts.Get(key)
	if !ok {
		return 0, false, nil
	}
	if len(val) != 8 {
		return 0, false, fmt.Errorf("%w: next window of %d bytes", ErrState, len(val))
	}
	return int64(binary.BigEndian.Uint64(val) ^ 1<<63), true, nil
}

// writeNext puts down which window of a key is next, where its rows do not tell it, and tells whether the table has it then; before: it had.
func (j *Windowed) writeNext(key []byte, next int64, derived, before bool) (written bool) {
	switch {
	case !derived:
		var b [8]byte
		binary.BigEndian.PutUint64(b[:], uint64(next)^1<<63)
		if err := j.starts.Put(key, b[:]); err != nil {
			panic("BUG: the table of next windows has no limit of its own: " + err.Error())
		}
		return true
	case before:
		j.starts.Delete(key)
	}
	return false
}

// place puts a group where its next window is due.
func (j *Windowed) place(g *group) {
	switch {
	case g.empty():
		j.store.settle(g, pipeline.NoDeadline, 0)
	case j.c.Windows.GapMs > 0:
		j.store.settle(g, g.sessions[0].last+j.c.Windows.GapMs, g.sessions[0].first)
	default:
		j.store.settle(g, g.next+j.c.Windows.SizeMs, g.next)
	}
}

// settle writes down which window is next, where the rows do not tell it, and puts the group to its place.
func (j *Windowed) settle(g *group) {
	if j.starts != nil {
		g.written = j.writeNext(g.key, g.next, g.empty() || g.next == j.c.Windows.first(g.first()), g.written)
	}
	j.place(g)
}

// Process implements pipeline.Operator.
func (j *Windowed) Process(side int, r *pipeline.Row, out *pipeline.Out) {
	if refuseTime(r, out) {
		return
	}
	p := pair{}
	p.sides[side] = j.c.Sides[side].kept(r.Slots, out)
	var null bool
	j.key, null = j.c.Sides[side].appendKey(j.key[:0], r.Slots)
	var g *group
	if !null {
		g = j.store.groups[string(j.key)]
	}
	open, ok := j.open(g, null, r.Time, p, out)
	switch {
	case !ok:
		return
	case null && j.c.Type.keeps(side):
		j.alone(open, r.Time, p, out)
		return
	case null:
		out.Counters.Dropped++
		return
	}
	if state.LargeBuilt && j.far != nil {
		if _, err := j.far.add(j.key, side, r, p.sides[side], false, out.Elapsed()); err != nil {
			out.Refuse(reasonMaxKeys, err.Error(), r)
			return
		}
		j.far.holds(j, j.key, r.Time, open)
		return
	}
	g, err := j.store.add(j.key, side, r, p.sides[side], false, out.Elapsed())
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	switch {
	case j.c.Windows.GapMs > 0:
		g.sessions = j.c.Windows.join(g.sessions, span{r.Time, r.Time})
	case g.place < 0:
		g.next = open
	default:
		g.next = min(g.next, open)
	}
	j.settle(g)
}

// open gives the start of the first window that still takes a row of time t; ok is false when none does. The row goes to LatePort once for
// each window that is over.
func (j *Windowed) open(g *group, null bool, t int64, p pair, out *pipeline.Out) (start int64, ok bool) {
	w := j.c.Windows
	if w.GapMs > 0 {
		if t+w.GapMs <= j.watermark && !j.touches(g, null, t) {
			j.late(t, t+w.GapMs, t, p, out)
			return 0, false
		}
		return t, true
	}
	start = w.first(t)
	if start > t { // between two windows
		out.Counters.Dropped++
		return 0, false
	}
	for ; start <= t && start+w.SizeMs <= j.watermark; start += w.SlideMs {
		j.late(start, start+w.SizeMs, t, p, out)
	}
	return start, start <= t
}

// touches tells whether a row joins a session of its key, which j.key is; g is nil without one.
func (j *Windowed) touches(g *group, null bool, t int64) bool {
	if state.LargeBuilt && j.far != nil {
		return !null && j.far.touches(j.c.Windows, j.key, t)
	}
	return g != nil && j.c.Windows.touches(g.sessions, t)
}

func (j *Windowed) late(start, end, t int64, p pair, out *pipeline.Out) {
	out.Counters.Late++
	if len(out.Ports) > LatePort {
		p.start, p.end = start, end
		j.emitter.emit(LatePort, t, p, out)
	}
}

// alone emits a row without key for each window from start on.
func (j *Windowed) alone(start, t int64, p pair, out *pipeline.Out) {
	w := j.c.Windows
	if w.GapMs > 0 {
		p.start, p.end = t, t+w.GapMs
		j.emitter.emit(0, p.end-1, p, out)
		return
	}
	for ; start <= t; start += w.SlideMs {
		p.start, p.end = start, start+w.SizeMs
		j.emitter.emit(0, p.end-1, p, out)
	}
}

// Watermark fires the windows whose end it has reached.
func (j *Windowed) Watermark(w int64, out *pipeline.Out) {
	j.watermark = max(j.watermark, w)
	if state.LargeBuilt && j.far != nil {
		j.far.watermark(j, w, out)
		return
	}
	for g := j.store.next(w); g != nil; g = j.store.next(w) {
		out.SetTimer(g.due, g.start, g.key)
		j.fire(g, out)
	}
}

// fire emits the next window of a group and lets the rows go that are in no later one.
func (j *Windowed) fire(g *group, out *pipeline.Out) {
	w := j.c.Windows
	start, end := g.start, g.due
	keep, behind := start+w.SlideMs, end // rows from keep on are in a later window, those from behind on are not in this one
	if w.GapMs > 0 {
		keep = g.sessions[0].last + 1
		behind = keep
		g.sessions = g.sessions[1:]
	}
	var from, to [2]int
	for side := range g.rows {
		from[side], to[side] = g.from(side, start), g.from(side, behind)
	}
	j.emit(g, from, to, pair{start: start, end: end}, out)
	for side := range g.rows {
		j.store.cut(g, side, 0, g.from(side, keep))
	}
	if w.GapMs == 0 && !g.empty() {
		g.next = max(keep, w.first(g.first()))
	}
	j.settle(g)
}

// fewPairs come out in one go: less than a step may hold (pipeline.BoundDefault).
const fewPairs = 1024

// emit puts out what the rows [from, to) of both inputs make.
func (j *Windowed) emit(g *group, from, to [2]int, p pair, out *pipeline.Out) {
	for side := range g.rows {
		if from[Right-side] < to[Right-side] || !j.c.Type.keeps(side) {
			continue
		}
		for i := from[side]; i < to[side]; i++ {
			p.sides[side] = j.store.values(g, side, i, out)
			j.emitter.emit(0, p.end-1, p, out)
			out.Yield()
		}
		p.sides[side] = nil
	}
	if from[Left] == to[Left] || from[Right] == to[Right] {
		return
	}
	j.rows = j.rows[:0]
	for i := from[Right]; i < to[Right]; i++ {
		j.rows = append(j.rows, j.store.values(g, Right, i, out))
	}
	many := len(j.rows)*(to[Left]-from[Left]) > fewPairs // they do not wait for the last
	if many {
		out.Keep()
	}
	for i := from[Left]; i < to[Left]; i++ {
		p.sides[Left] = j.store.values(g, Left, i, out)
		for _, right := range j.rows {
			p.sides[Right] = right
			j.emitter.emit(0, p.end-1, p, out)
		}
		if many {
			out.Yield()
		}
	}
	if many {
		out.Kept()
	}
	clear(j.rows)
}

// Elapsed implements pipeline.Operator: the join goes by event time.
func (j *Windowed) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (j *Windowed) Timers() (elapsed, eventTime int64) {
	if state.LargeBuilt && j.far != nil {
		return pipeline.NoDeadline, j.far.deadline()
	}
	return pipeline.NoDeadline, j.store.deadline()
}
