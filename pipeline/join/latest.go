package join

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/state"
)

// LatestConfig sets up a latest-value join.
type LatestConfig struct {
	Sides   [2]Side
	Type    Type // Inner or LeftOuter
	Output  Output
	MaxKeys int   // keys of the right input; 0: no limit
	TTL     int64 // elapsed ns since the last right row after which it counts no more; 0: never
}

// Validate names the field that is wrong.
func (c LatestConfig) Validate() error {
	switch {
	case c.Type > LeftOuter:
		return fmt.Errorf("%w: a latest-value join is inner or left, not %s", ErrConfig, c.Type)
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, c.MaxKeys, c.TTL)
	}
	return c.Output.validate(c.Sides)
}

// Latest joins each left row, when it comes, with the right row of its key that came last: last in the total order, whatever its event
// time. That is what a topic of retained messages means: the newest message there is the truth, and a device that corrects itself with
// an older stamp is believed. A right row makes none come out. The rows have the time of the left one; event time of the right input
// plays no part.
type Latest struct {
	c       LatestConfig
	latest  *state.Table
	emitter emitter
	key     []byte
	entry   []byte
	stale   bool // planted fault: the first right row of a key stays
}

// NewLatest makes a latest-value join from a valid config.
func NewLatest(c LatestConfig) *Latest {
	return &Latest{c: c, emitter: emitter{Output: c.Output}}
}

// Open implements pipeline.Operator.
func (j *Latest) Open(tables pipeline.Tables) (err error) {
	j.latest, err = tables.Table(state.Spec{
		Name: "latest", Kind: state.Value, Type: "join.latest", Version: 1, TTL: j.c.TTL, MaxKeys: j.c.MaxKeys,
	})
	return err
}

// Restored implements pipeline.Operator.
func (j *Latest) Restored() (err error) {
	out := pipeline.NewOut("", 0)
	j.latest.Range(func(_, _, val []byte) bool {
		slots, bad := out.ParseSlots(val)
		if bad != nil || len(slots) != len(j.c.Sides[Right].Keep) {
			err = fmt.Errorf("%w: latest row of %d bytes and %d slots, want %d", ErrState, len(val), len(slots), len(j.c.Sides[Right].Keep))
		}
		return err == nil
	})
	return err
}

// Process implements pipeline.Operator.
func (j *Latest) Process(side int, r *pipeline.Row, out *pipeline.Out) {
	if j.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		j.latest.SetNow(out.Elapsed())
	}
	var null bool
	j.key, null = j.c.Sides[side].appendKey(j.key[:0], r.Slots)
	values := j.c.Sides[side].kept(r.Slots, out)
	if side == Right {
		j.hold(null, values, r, out)
		return
	}
	p := pair{}
	p.sides[Left] = values
	if val, ok := j.latest.Get(j.key); ok && !null {
		slots, err := out.ParseSlots(val)
		if err != nil {
			panic("BUG: a latest row is not readable: " + err.Error())
		}
		p.sides[Right] = slots
	} else if j.c.Type == Inner {
		out.Counters.Dropped++
		return
	}
	j.emitter.emit(0, r.Time, p, out)
}

// hold makes a right row the latest of its key.
func (j *Latest) hold(null bool, values []pipeline.Value, r *pipeline.Row, out *pipeline.Out) {
	if null { // equal to nothing: it would never be found
		out.Counters.Dropped++
		return
	}
	if j.stale {
		if _, ok := j.latest.Get(j.key); ok {
			return
		}
	}
	j.entry = pipeline.AppendSlots(j.entry[:0], values)
	if err := j.latest.Put(j.key, j.entry); err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
	}
}

// Watermark implements pipeline.Operator: the join goes by the order of arrival.
func (j *Latest) Watermark(int64, *pipeline.Out) {}

// Elapsed implements pipeline.Operator.
func (j *Latest) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (j *Latest) Timers() (elapsed, eventTime int64) { return pipeline.NoDeadline, pipeline.NoDeadline }
