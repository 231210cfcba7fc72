package ops

import (
	"fmt"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/state"
)

// DedupConfig sets up a dedup.
type DedupConfig struct {
	Key     []*expr.Program // what makes two rows copies of each other
	TTL     int64           // elapsed ns since the first copy, after which the next one counts as new; 0: never
	MaxKeys int             // 0: no limit
}

// Validate names the field that is wrong.
func (c DedupConfig) Validate() error {
	switch {
	case len(c.Key) == 0:
		return fmt.Errorf("%w: dedup: key is missing", ErrConfig)
	case c.MaxKeys < 0 || c.TTL < 0:
		return fmt.Errorf("%w: dedup: max_keys is %d, ttl %d ns, want 0 or more", ErrConfig, c.MaxKeys, c.TTL)
	}
	return nil
}

// Dedup passes the first copy of each key and drops those that come less than TTL of elapsed time after it; a copy does
// not make the time longer. Null is equal to nothing: a row with a null in its key passes.
type Dedup struct {
	timerless
	c    DedupConfig
	seen *state.Table
	key  []byte
}

// NewDedup makes a dedup from a valid config.
func NewDedup(c DedupConfig) *Dedup { return &Dedup{c: c} }

// Open implements pipeline.Operator.
func (d *Dedup) Open(tables pipeline.Tables) (err error) {
	d.seen, err = tables.Table(state.Spec{
		Name: "seen", Kind: state.Value, Type: "ops.dedup", Version: 1, TTL: d.c.TTL, MaxKeys: d.c.MaxKeys,
	})
	return err
}

// Restored implements pipeline.Operator.
func (d *Dedup) Restored() error { return checkSizes(d.seen, 0) }

// Process implements pipeline.Operator.
func (d *Dedup) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	d.key = d.key[:0]
	for _, part := range d.c.Key {
		v := part.Eval(r.Slots)
		if v.IsNull() {
			out.Forward(0, r)
			return
		}
		var err error
		if d.key, err = pipeline.AppendKey(d.key, v); err != nil {
			refuseValue(out, r, "dedup key", v)
			return
		}
	}
	if d.c.TTL > 0 { // a row made by a timer comes before the tick that tells the table
		d.seen.SetNow(out.Elapsed())
	}
	if _, ok := d.seen.Get(d.key); ok {
		out.Counters.Dropped++
		return
	}
	if err := d.seen.Put(d.key, nil); err != nil {
		out.Refuse(reasonMaxKeys, err.Error(), r)
		return
	}
	out.Forward(0, r)
}
