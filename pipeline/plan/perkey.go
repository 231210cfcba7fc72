package plan

import (
	"fmt"
	"math"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
)

// perKey compiles what all steps with a value per key share; text is its canonical form. A step may be divided by its key, which comes out in the
// slots in which it came in; one that adds columns says with carriesKey in which.
func (c *compiler) perKey(b *built, in *edge) (k ops.Keyed, keys []key, text string, ok bool) {
	keys, ok = c.keys(b.spec, in.scope)
	k = ops.Keyed{Key: slotsOf(keys), MaxKeys: c.maxKeys(b.spec), TTL: c.ttl(b.spec)}
	b.stateful, b.narrow = true, true
	b.keyedBy(k.Key, stateKeyWhole, k.Key)
	return k, keys, fmt.Sprintf("by %s ttl %d max_keys %d", keyText(keys), k.TTL, k.MaxKeys), ok
}

func (c *compiler) changed(b *built, in *edge) bool {
	k, _, text, ok := c.perKey(b, in)
	value := c.expression("changed value", b.spec.Changed.Value, in.scope, nil)
	if value == nil || !ok {
		return false
	}
	config := ops.ChangedConfig{Keyed: k, Value: value}
	b.programs, b.validate = []*expr.Program{value}, config.Validate
	b.out = []edge{*in}
	b.new = func() pipeline.Operator { return ops.NewChanged(config) }
	b.params = func() string { return fmt.Sprintf("%s value %s", text, value) }
	return true
}

// adds completes a step that adds columns to the rows of its input, computed from a value and what is kept of their key; make makes its operator. Its
// outputs behind the first are given.
func (b *built) adds(e *extended, in *edge, keys []key, value *expr.Program, validate func() error, make func(ops.Carry) pipeline.Operator, others ...edge) {
	b.programs, b.validate = []*expr.Program{value}, validate
	b.out = append([]edge{{scope: e, timed: in.timed}}, others...)
	b.carriesKey(e, keys)
	b.new = func() pipeline.Operator { return make(e.mapping) } // which is whole only when all steps are compiled
}

func (c *compiler) lag(b *built, in *edge) bool {
	l := b.spec.Lag
	k, keys, text, ok := c.perKey(b, in)
	value := c.expression("lag value", l.Value, in.scope, nil)
	if value == nil || !ok {
		return false
	}
	e := newExtended(stepName(b.spec), in.scope)
	config := ops.LagConfig{Keyed: k, Value: value, N: l.N}
	if config.Slot, ok = c.extend(e, l.As, l.Pos, value.Kind()); !ok {
		return false
	}
	b.adds(e, in, keys, value, config.Validate, func(carry ops.Carry) pipeline.Operator {
		config := config
		config.Carry = carry
		return ops.NewLag(config)
	})
	b.params = func() string { return fmt.Sprintf("%s value %s n %d as %q", text, value, l.N, l.As) }
	return true
}

func (c *compiler) delta(b *built, in *edge) bool {
	d := b.spec.Delta
	k, keys, text, ok := c.perKey(b, in)
	value := c.expression("delta value", d.Value, in.scope, numbers)
	if value == nil || !ok {
		return false
	}
	e := newExtended(stepName(b.spec), in.scope)
	config := ops.DeltaConfig{Keyed: k, Value: value}
	if config.Slot, ok = c.extend(e, d.As, d.Pos, value.Kind()); !ok {
		return false
	}
	b.adds(e, in, keys, value, config.Validate, func(carry ops.Carry) pipeline.Operator {
		config := config
		config.Carry = carry
		return ops.NewDelta(config)
	})
	b.params = func() string { return fmt.Sprintf("%s value %s as %q", text, value, d.As) }
	return true
}

func (c *compiler) counter(b *built, in *edge) bool {
	s := b.spec.Counter
	k, keys, text, ok := c.perKey(b, in)
	value := c.expression("counter value", s.Value, in.scope, numbers)
	if value == nil || !ok {
		return false
	}
	step := s.StepMax
	switch {
	case s.WrapLast == 0 && step > 0:
		c.problems.Add(s.StepPos, "", "max_step tells a wrap from a reset: give wrap", "%s has max_step and no wrap", stepName(b.spec))
		return false
	case step > s.WrapLast:
		c.problems.Add(s.StepPos, "", "max_step is below wrap", "%s: max_step %d is not below wrap", stepName(b.spec), step)
		return false
	case step == 0:
		step = s.WrapLast/2 + s.WrapLast%2
	}
	e := newExtended(stepName(b.spec), in.scope)
	config := ops.CounterConfig{
		Keyed: k, Value: value, WrapLast: s.WrapLast, StepMax: step, ResetUnknown: s.ResetUnknown, EventTime: in.timed, RateNs: s.RateNs, RateSlot: -1,
	}
	if config.IncreaseSlot, ok = c.extend(e, s.As, s.Pos, value.Kind()); !ok {
		return false
	}
	if s.RateNs > 0 {
		if config.RateSlot, ok = c.extend(e, s.RateAs, s.Pos, pipeline.Float); !ok {
			return false
		}
	}
	b.adds(e, in, keys, value, config.Validate, func(carry ops.Carry) pipeline.Operator {
		config := config
		config.Carry = carry
		return ops.NewCounter(config)
	}, *in)
	b.params = func() string {
		return fmt.Sprintf("%s value %s wrap %d step %d unknown %v event %v rate %d as %q %q",
			text, value, s.WrapLast, step, s.ResetUnknown, in.timed, s.RateNs, s.As, s.RateAs)
	}
	return true
}

// The columns of an outlier's row besides those that it came with.
const (
	columnZ      = "z"
	columnMean   = "mean"
	columnStdDev = "stddev"
)

func (c *compiler) zscore(b *built, in *edge) bool {
	z := b.spec.ZScore
	k, keys, text, ok := c.perKey(b, in)
	value := c.expression("zscore value", z.Value, in.scope, numbers)
	if value == nil || !ok {
		return false
	}
	e := newExtended(stepName(b.spec), in.scope)
	config := ops.ZScoreConfig{Keyed: k, Value: value, N: z.N, Limit: z.Limit}
	for _, own := range []struct {
		name string
		slot *int
	}{{columnZ, &config.ZSlot}, {columnMean, &config.MeanSlot}, {columnStdDev, &config.SDSlot}} {
		if *own.slot, ok = c.extend(e, Text{Value: own.name}, z.Pos, pipeline.Float); !ok {
			return false
		}
	}
	b.adds(e, in, keys, value, config.Validate, func(carry ops.Carry) pipeline.Operator {
		config := config
		config.Carry = carry
		return ops.NewZScore(config)
	})
	b.params = func() string { return fmt.Sprintf("%s value %s n %d limit %v", text, value, z.N, z.Limit) }
	return true
}

func (c *compiler) throttle(b *built, in *edge) bool {
	t := b.spec.Throttle
	k, _, text, ok := c.perKey(b, in)
	interval, good := c.span("throttle", t.IntervalNs, t.Pos, in.timed)
	if !ok || !good {
		return false
	}
	config := ops.ThrottleConfig{Keyed: k, Interval: interval, EventTime: in.timed}
	b.validate = config.Validate
	b.out = []edge{*in}
	b.new = func() pipeline.Operator { return ops.NewThrottle(config) }
	b.params = func() string { return fmt.Sprintf("%s interval %d event %v", text, interval, in.timed) }
	return true
}

// span is a duration in elapsed ns, or in ms of event time, which must be whole.
func (c *compiler) span(what string, ns int64, at Pos, eventTime bool) (span int64, ok bool) {
	switch {
	case ns <= 0:
		return 0, false // said where the setting was read
	case !eventTime:
		return ns, true
	case ns%1e6 != 0:
		c.problems.Add(at, "", "event time counts whole milliseconds", "%s: %d ns of event time", what, ns)
		return 0, false
	}
	return ns / 1e6, true
}

func (c *compiler) sample(b *built, in *edge) bool {
	k, _, text, ok := c.perKey(b, in)
	if every := b.spec.Sample.Every; !ok || every < 1 || every > math.MaxInt32 {
		return false
	}
	config := ops.SampleConfig{Keyed: k, Every: b.spec.Sample.Every}
	b.validate = config.Validate
	b.out = []edge{*in}
	b.new = func() pipeline.Operator { return ops.NewSample(config) }
	b.params = func() string { return fmt.Sprintf("%s every %d", text, config.Every) }
	return true
}

// carriesKey notes where the key comes out of port 0, whose rows have columns besides those that came in; other ports have the rows that came in.
func (b *built) carriesKey(e *extended, keys []key) {
	if b.keyed == nil {
		return
	}
	out := make([]int, len(keys))
	for i, k := range keys {
		out[i] = e.carry(k)
	}
	b.keyed.Out = [][]int{out}
	for range b.out[1:] {
		b.keyed.Out = append(b.keyed.Out, slotsOf(keys))
	}
}
