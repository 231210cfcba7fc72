package ops

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/state"
)

// DeadbandConfig sets up a deadband.
type DeadbandConfig struct {
	Key       []int         // slots; null is a key like any other
	Value     *expr.Program // the number to watch
	Threshold float64       // a value passes when it differs by more than this from the last one passed
	MaxKeys   int           // 0: no limit
	TTL       int64         // elapsed ns since a value passed, after which the next one passes whatever it is; 0: never
}

// Validate names the field that is wrong.
func (c DeadbandConfig) Validate() error {
	switch {
	case c.Value == nil:
		return fmt.Errorf("%w: deadband: value is missing", ErrConfig)
	case !(c.Threshold >= 0) || math.IsInf(c.Threshold, 1):
		return fmt.Errorf("%w: deadband: threshold is %v, want a number from 0 on", ErrConfig, c.Threshold)
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: deadband: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, c.MaxKeys, c.TTL)
	}
	return nil
}

// Deadband reports by exception: per key the first value passes, then every value with |v - last passed| > Threshold.
// A null value is no measurement: its row is dropped and counted.
type Deadband struct {
	timerless
	c    DeadbandConfig
	last *state.Table
	key  []byte
}

// NewDeadband makes a deadband from a valid config.
func NewDeadband(c DeadbandConfig) *Deadband { return &Deadband{c: c} }

// deadbandBytes: kind and number (FORMAT.md).
const deadbandBytes = 1 + 8

// Open implements pipeline.Operator.
func (d *Deadband) Open(tables pipeline.Tables) (err error) {
	d.last, err = tables.Table(state.Spec{
		Name: "last", Kind: state.Value, Type: "ops.deadband", Version: 1, TTL: d.c.TTL, MaxKeys: d.c.MaxKeys,
	})
	return err
}

// Restored implements pipeline.Operator.
func (d *Deadband) Restored() error { return checkSizes(d.last, deadbandBytes) }

// Process implements pipeline.Operator.
func (d *Deadband) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := d.c.Value.Eval(r.Slots)
	switch {
	case v.IsNull():
		out.Counters.Dropped++
		return
	case !v.IsNumber():
		refuseValue(out, r, "deadband value", v)
		return
	}
	if d.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		d.last.SetNow(out.Elapsed())
	}
	d.key = appendKeySlots(d.key[:0], r.Slots, d.c.Key)
	if b, ok := d.last.Get(d.key); ok {
		last := pipeline.Value{Kind: pipeline.Kind(b[0]), Num: binary.LittleEndian.Uint64(b[1:])}
		if !differs(v, last, d.c.Threshold) {
			out.Counters.Dropped++
			return
		}
	}
	b, _, err := d.last.Upsert(d.key, deadbandBytes)
	if err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	b[0] = byte(v.Kind)
	binary.LittleEndian.PutUint64(b[1:], v.Num)
	out.Forward(0, r)
}

// differs tells |a - b| > threshold: exact between integers (then rounded once), in float64 otherwise.
func differs(a, b pipeline.Value, threshold float64) bool {
	if a.Kind == pipeline.Int && b.Kind == pipeline.Int {
		x, y := a.Int(), b.Int()
		return float64(uint64(max(x, y))-uint64(min(x, y))) > threshold
	}
	if a.Kind == pipeline.Uint && b.Kind == pipeline.Uint {
		x, y := a.Uint(), b.Uint()
		return float64(max(x, y)-min(x, y)) > threshold
	}
	x, _ := a.AsFloat()
	y, _ := b.AsFloat()
	return math.Abs(x-y) > threshold
}

// checkSizes refuses a table with an entry that has not the one size its version knows.
func checkSizes(t *state.Table, size int) (err error) {
	t.Range(func(_, _, val []byte) bool {
		if len(val) != size {
			err = fmt.Errorf("%w: table %s has an entry of %d bytes, want %d", ErrState, t.Spec().Name, len(val), size)
		}
		return err == nil
	})
	return err
}
