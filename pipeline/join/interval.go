package join

import (
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// spanMax bounds the spans of a join and placeable the event times, so that no sum of them overflows.
const spanMax = math.MaxInt64 / 8

func placeable(t int64) bool { return t > math.MinInt64/4 && t < math.MaxInt64/4 }

// IntervalConfig sets up an interval join: a left and a right row of one key are partners when
//
//	left.time - BeforeMs <= right.time <= left.time + AfterMs
type IntervalConfig struct {
	Sides             [2]Side
	Type              Type
	BeforeMs, AfterMs int64
	Output            Output
	MaxKeys           int   // rows held at once; 0: no limit
	TTL               int64 // elapsed ns from arrival after which a row is dropped; 0: never
}

// Validate names the field that is wrong.
func (c IntervalConfig) Validate() error {
	switch {
	case c.BeforeMs < 0 || c.BeforeMs > spanMax || c.AfterMs < 0 || c.AfterMs > spanMax:
		return fmt.Errorf("%w: within is %d ms before and %d ms after, want 0 to %d", ErrConfig, c.BeforeMs, c.AfterMs, int64(spanMax))
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, c.MaxKeys, c.TTL)
	case c.Type > Full:
		return fmt.Errorf("%w: %s", ErrConfig, c.Type)
	}
	return c.Output.validate(c.Sides)
}

// Interval joins each row with the rows of the other input that are near it in event time. A pair comes out at once, when the second of
// its rows comes, with the later of their times; the partners of one row in the order of (event time, arrival). A row that the type
// keeps comes out without partner when the watermark has passed the last instant at which one could come, with that instant as its
// time: it may lie far behind the row's own, and a step behind would count it as late. A row whose time the watermark has passed
// is late: it goes to LatePort and joins nothing, since its partners may be gone already, or be out without it. A row with a null in its
// key has no partner, ever.
type Interval struct {
	c         IntervalConfig
	store     store
	far       *farInterval // not nil: the rows are there
	emitter   emitter
	watermark int64
	key       []byte
}

// NewInterval makes an interval join from a valid config.
func NewInterval(c IntervalConfig) *Interval {
	return &Interval{c: c, store: newStore(c.Sides, c.TTL), emitter: emitter{Output: c.Output}, watermark: pipeline.MinWatermark}
}

// Open implements pipeline.Operator.
func (j *Interval) Open(tables pipeline.Tables) error {
	if err := j.store.open(tables, j.c.MaxKeys); err != nil {
		return err
	}
	j.openFar(j.store.beside())
	return nil
}

// Restored rebuilds the order of the rows held.
func (j *Interval) Restored() error {
	if state.LargeBuilt && j.far != nil {
		return j.far.restored(j)
	}
	if err := j.store.restored(); err != nil {
		return err
	}
	for _, g := range j.store.groups {
		j.settle(g)
	}
	return nil
}

// deadline is the watermark at which no partner of a row can come any more: each that comes lies at or above it.
func (j *Interval) deadline(side int, time int64) int64 {
	wait := j.c.AfterMs
	if side == Right {
		wait = j.c.BeforeMs
	}
	if j.store.fault.early {
		return time + wait
	}
	return time + wait + 1
}

// reach gives the bounds of the partners of a row, both inclusive.
func (j *Interval) reach(side int, time int64) (from, to int64) {
	before, after := j.c.BeforeMs, j.c.AfterMs
	if side == Right {
		before, after = after, before
	}
	if j.store.fault.exclusive {
		after--
	}
	return time - before, time + after
}

func (j *Interval) settle(g *group) {
	due := int64(pipeline.NoDeadline)
	for side, rows := range g.rows {
		if len(rows) > 0 {
			due = min(due, j.deadline(side, rows[0].time))
		}
	}
	j.store.settle(g, due, 0)
}

// Process implements pipeline.Operator.
func (j *Interval) Process(side int, r *pipeline.Row, out *pipeline.Out) {
	if refuseTime(r, out) {
		return
	}
	p := pair{}
	p.sides[side] = j.c.Sides[side].kept(r.Slots, out)
	if r.Time < j.watermark {
		out.Counters.Late++
		if len(out.Ports) > LatePort {
			j.emitter.emit(LatePort, r.Time, p, out)
		}
		return
	}
	var null bool
	if j.key, null = j.c.Sides[side].appendKey(j.key[:0], r.Slots); null {
		if j.c.Type.keeps(side) {
			j.emitter.emit(0, r.Time, p, out)
		} else {
			out.Counters.Dropped++
		}
		return
	}
	if state.LargeBuilt && j.far != nil {
		j.far.process(j, side, r, p, out)
		return
	}
	other, first, behind := Right-side, 0, 0
	if g := j.store.groups[string(j.key)]; g != nil {
		from, to := j.reach(side, r.Time)
		first, behind = g.from(other, from), g.from(other, to+1)
	}
	g, err := j.store.add(j.key, side, r, p.sides[side], first < behind, out.Elapsed())
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	for i := first; i < behind; i++ {
		p.sides[other] = j.store.values(g, other, i, out)
		if j.c.Type.keeps(other) {
			j.store.match(g, other, i)
		}
		j.emitter.emit(0, max(r.Time, g.rows[other][i].time), p, out)
	}
	j.settle(g)
}

// refuseTime refuses a row that no instant can be told for.
func refuseTime(r *pipeline.Row, out *pipeline.Out) bool {
	switch {
	case r.Time == pipeline.NoTime:
		out.Refuse(reasonNoTime, "the row has no event time to join by", r)
	case !placeable(r.Time):
		out.Refuse(reasonNoTime, "the row's event time is too far off for a join", r)
	default:
		return false
	}
	return true
}

// Watermark lets the rows go whose last instant it has passed.
func (j *Interval) Watermark(w int64, out *pipeline.Out) {
	j.watermark = max(j.watermark, w)
	if state.LargeBuilt && j.far != nil {
		j.far.watermark(j, w, out)
		return
	}
	for g := j.store.next(w); g != nil; g = j.store.next(w) {
		due := g.due
		out.SetTimer(due, 0, g.key)
		for side := range g.rows {
			n := 0
			for ; n < len(g.rows[side]) && j.deadline(side, g.rows[side][n].time) <= due; n++ {
				if g.rows[side][n].matched || !j.c.Type.keeps(side) {
					continue
				}
				p := pair{}
				p.sides[side] = j.store.values(g, side, n, out)
				j.emitter.emit(0, due-1, p, out)
				out.Yield()
			}
			j.store.cut(g, side, 0, n)
		}
		j.settle(g)
	}
}

// Elapsed lets the rows go that have waited for so long as they may. Those that the type keeps come out as when the watermark lets them
// go: before it has.
func (j *Interval) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	if state.LargeBuilt && j.far != nil {
		j.far.elapsed(j, now.Elapsed, out)
		return
	}
	for at := j.store.expiring(); at <= now.Elapsed && at != pipeline.NoDeadline; at = j.store.expiring() {
		for _, e := range j.store.expired() {
			i := e.g.find(e.side, e.row)
			if i < 0 {
				continue
			}
			if !e.g.rows[e.side][i].matched && j.c.Type.keeps(e.side) {
				out.SetTimer(at, 0, e.g.key) // before slots are taken
				p := pair{}
				p.sides[e.side] = j.store.values(e.g, e.side, i, out)
				j.emitter.emit(0, j.deadline(e.side, e.row.time)-1, p, out)
			}
			j.store.cut(e.g, e.side, i, i+1)
			j.settle(e.g)
		}
	}
}

// Timers implements pipeline.Operator. An inner join has nothing to say when event time goes on: no tick is journaled for it.
func (j *Interval) Timers() (elapsed, eventTime int64) {
	var waits interface {
		expiring() int64
		deadline() int64
	} = &j.store
	if state.LargeBuilt && j.far != nil {
		waits = j.far
	}
	if j.c.Type == Inner {
		return waits.expiring(), pipeline.NoDeadline
	}
	return waits.expiring(), waits.deadline()
}
