package window

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/state"
)

// StateConfig sets up state windows. With End nil a window is a run of rows of a key for which Begin holds; the first for which it does not
// ends it and is in none. With End a window goes from a row for which Begin holds to the first for which End does, both in it. Lateness and
// Early have no meaning and must be 0.
type StateConfig struct {
	Config
	Begin, End *expr.Program
}

// Validate names the field that is wrong.
func (c StateConfig) Validate() error {
	switch {
	case c.Begin == nil:
		return fmt.Errorf("%w: state: there is no condition", ErrConfig)
	case c.LatenessMs != 0 || c.EarlyMs != 0:
		return fmt.Errorf("%w: state: allowed_lateness and early are for windows of time", ErrConfig)
	}
	return c.Config.validate("state")
}

// StateWindow is the operator of state windows, in the order of arrival. A row whose condition is null says nothing: it is dropped, and the
// window stays as it is. The bounds of a window are those of CountWindow. An open window never comes out by itself.
type StateWindow struct {
	base
	c       StateConfig
	entries *state.Table // key -> bounds and contents of its open window
}

// NewStateWindow makes state windows from a valid config.
func NewStateWindow(c StateConfig) *StateWindow { return &StateWindow{base: newBase(c.Config), c: c} }

func (o *StateWindow) entryBytes() int { return boundsBytes + o.acc.size }

// Open implements pipeline.Operator.
func (o *StateWindow) Open(tables pipeline.Tables) (err error) {
	o.entries, err = tables.Table(state.Spec{Name: "run", Kind: state.Value, Type: "window.run", Version: 1, TTL: o.c.TTL, MaxKeys: o.c.MaxKeys})
	if err != nil {
		return err
	}
	return o.open(tables)
}

// Restored implements pipeline.Operator.
func (o *StateWindow) Restored() (err error) {
	o.entries.Range(func(key, _, val []byte) bool {
		if len(key) < startBytes || len(val) != o.entryBytes() {
			err = fmt.Errorf("%w: state window of %d bytes, want %d", ErrState, len(val), o.entryBytes())
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	return o.restored()
}

// Process implements pipeline.Operator.
func (o *StateWindow) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if o.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		o.entries.SetNow(out.Elapsed())
	}
	o.keyOf(0, r)
	entry, open := o.entries.Get(o.key)
	begin := o.c.Begin.Eval(r.Slots)
	if begin.Kind == pipeline.Error {
		out.Refuse(reasonExpression, "state: "+begin.Str, r)
		return
	}
	if o.c.End != nil {
		o.between(r, open, begin, out)
		return
	}
	switch {
	case begin.Kind != pipeline.Bool:
		out.Counters.Dropped++
	case begin.Bool():
		o.take(r, out)
	default:
		out.Counters.Dropped++
		if open {
			o.close(entry, r, out)
		}
	}
}

// between handles a row of a window with two conditions.
func (o *StateWindow) between(r *pipeline.Row, open bool, begin pipeline.Value, out *pipeline.Out) {
	end := o.c.End.Eval(r.Slots)
	if end.Kind == pipeline.Error {
		out.Refuse(reasonExpression, "state: "+end.Str, r)
		return
	}
	if !open && (begin.Kind != pipeline.Bool || !begin.Bool()) {
		out.Counters.Dropped++
		return
	}
	if entry := o.take(r, out); entry != nil && end.Kind == pipeline.Bool && end.Bool() {
		o.close(entry, r, out)
	}
}

// take adds a row to the window of o.key, which it may begin; nil: it was refused.
func (o *StateWindow) take(r *pipeline.Row, out *pipeline.Out) []byte {
	if !o.evaluate(r, out) {
		return nil
	}
	entry, created, err := o.entries.Upsert(o.key, o.entryBytes())
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return nil
	}
	t := rowTime(r, out)
	c := cell{side: o.kept(), key: o.key, entry: entry[boundsBytes:]}
	if created {
		if o.c.TTL > 0 {
			o.begin(c)
		}
		putBounds(entry, Span{t, t})
	} else {
		putBounds(entry, Union(bounds(entry), Span{t, t}))
	}
	o.add(c, r)
	return entry
}

// close emits the window of o.key and forgets it.
func (o *StateWindow) close(entry []byte, r *pipeline.Row, out *pipeline.Out) {
	c := cell{side: o.kept(), key: o.key, entry: entry[boundsBytes:]}
	o.emit(bounds(entry), c, r, out)
	o.forget(c)
	o.entries.Delete(o.key)
}

// Watermark implements pipeline.Operator: these windows know arrival only.
func (o *StateWindow) Watermark(int64, *pipeline.Out) {}

// Elapsed implements pipeline.Operator.
func (o *StateWindow) Elapsed(pipeline.Stamp, *pipeline.Out) {}

// Timers implements pipeline.Operator.
func (o *StateWindow) Timers() (elapsed, eventTime int64) {
	return pipeline.NoDeadline, pipeline.NoDeadline
}
