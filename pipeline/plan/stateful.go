package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
)

func (c *compiler) deadband(b *built, in *edge) bool {
	d := b.spec.Deadband
	keys, ok := c.keys(b.spec, in.scope)
	value := c.expression("deadband value", d.Value, in.scope, numbers)
	if value == nil || !ok {
		return false
	}
	config := ops.DeadbandConfig{Key: slotsOf(keys), Value: value, Threshold: d.Threshold, MaxKeys: c.maxKeys(b.spec), TTL: c.ttl(b.spec)}
	b.stateful, b.programs, b.validate = true, []*expr.Program{value}, config.Validate
	b.out = []edge{*in}
	b.narrow = true
	b.keyedBy(config.Key, stateKeyWhole, config.Key)
	b.new = func() pipeline.Operator { return ops.NewDeadband(config) }
	b.params = func() string {
		return fmt.Sprintf("by %s value %s threshold %v ttl %d max_keys %d", keyText(keys), value, d.Threshold, config.TTL, config.MaxKeys)
	}
	return true
}

// The columns of an alarm's rows besides its key.
const (
	columnTransition = "transition"
	columnValue      = "value"
	columnTime       = "time"
)

func (c *compiler) alarm(b *built, in *edge) bool {
	a := b.spec.Alarm
	keys, ok := c.keys(b.spec, in.scope)
	value := c.expression("alarm value", a.Value, in.scope, nil)
	if a.Value.Value == "" || a.Raise.Value == "" {
		return false
	}
	src, start := shorthand(a.Value, a.Raise)
	raise := c.composed("alarm raise", a.Raise, src, start, in.scope, condition)
	var clear *expr.Program
	if a.Clear.Value != "" {
		src, start := shorthand(a.Value, a.Clear)
		clear = c.composed("alarm clear", a.Clear, src, start, in.scope, condition)
	} else if a.Latch {
		c.problems.Add(a.Pos, "", "give a clear condition", "%s latches and nothing clears it", stepName(b.spec))
		return false
	}
	if value == nil || raise == nil || a.Clear.Value != "" && clear == nil || !ok {
		return false
	}
	if clear != nil && clear.String() == raise.String() {
		c.problems.Add(a.Clear.Pos, "", "leave clear out: the alarm ends when raise is false", "%s is cleared by what raises it", stepName(b.spec))
		return false
	}
	t := &table{what: stepName(b.spec)}
	config := ops.AlarmConfig{Key: slotsOf(keys), Value: value, Raise: raise, HoldNs: a.HoldNs, Latch: a.Latch, MaxKeys: c.maxKeys(b.spec)}
	b.programs = []*expr.Program{value, raise}
	if clear != nil {
		config.Clear = clear
		b.programs = append(b.programs, clear)
	}
	config.KeyOut, ok = c.keyColumns(b.spec, t, keys)
	if !ok {
		return false
	}
	for _, own := range []struct {
		name string
		kind pipeline.Kind
		slot *int
	}{{columnTransition, pipeline.String, &config.TransitionSlot}, {columnValue, value.Kind(), &config.ValueSlot}} {
		if *own.slot, ok = c.column(t, own.name, own.kind, b.spec.Pos); !ok {
			return false
		}
	}
	timeSlot := -1
	if in.timed {
		if timeSlot, ok = c.column(t, columnTime, pipeline.Int, b.spec.Pos); !ok {
			return false
		}
	}
	config.Width = t.width()
	b.stateful, b.validate, b.fixed = true, config.Validate, t
	b.out = []edge{{scope: t, timed: in.timed}}
	b.narrow = config.HoldNs == 0
	b.keyedBy(config.Key, stateKeyWhole, config.KeyOut)
	b.new = func() pipeline.Operator { return withTime(ops.NewAlarm(config), timeSlot) }
	b.params = func() string {
		text := fmt.Sprintf("by %s value %s raise %s hold %d latch %v max_keys %d", keyText(keys), value, raise, a.HoldNs, a.Latch, config.MaxKeys)
		if clear != nil {
			text += " clear " + clear.String()
		}
		return text
	}
	return true
}

func (c *compiler) dedup(b *built, in *edge) bool {
	config := ops.DedupConfig{TTL: c.ttl(b.spec), MaxKeys: c.maxKeys(b.spec)}
	var text []string
	for _, k := range b.spec.Dedup.Key {
		prog := c.expression("dedup key", k, in.scope, nil)
		if prog == nil {
			return false
		}
		config.Key = append(config.Key, prog)
		b.programs = append(b.programs, prog)
		text = append(text, prog.String())
	}
	if len(config.Key) == 0 {
		return false
	}
	if config.TTL == 0 {
		c.warnings.Add(b.spec.Dedup.Pos, "", "set ttl", "%s never forgets a key: it refuses new ones after max_keys", stepName(b.spec))
	}
	b.stateful, b.validate = true, config.Validate
	b.out = []edge{*in}
	b.narrow = true
	if slots := fieldSlots(config.Key); slots != nil {
		b.keyedBy(slots, stateKeyWhole, slots)
	}
	b.new = func() pipeline.Operator { return ops.NewDedup(config) }
	b.params = func() string {
		return fmt.Sprintf("key %s ttl %d max_keys %d", strings.Join(text, ","), config.TTL, config.MaxKeys)
	}
	return true
}

func (c *compiler) sort(b *built, in *edge) bool {
	if !in.timed {
		c.noTime(b.spec, b.spec.Sort.Pos)
		return false
	}
	config := ops.SortConfig{MaxKeys: c.maxKeys(b.spec)}
	b.stateful, b.validate = true, config.Validate
	b.out = []edge{*in, *in}
	b.new = func() pipeline.Operator { return ops.NewSort(config) }
	// Held rows are kept slot by slot: the layout is part of what the state means.
	b.params = func() string { return fmt.Sprintf("max_keys %d layout %s", config.MaxKeys, layout(in.scope)) }
	return true
}

func (c *compiler) noTime(s *StepSpec, at Pos) {
	c.problems.Add(at, "", "give every source before it the setting time", "%s needs event time, its rows have none", stepName(s))
}

// fieldSlots gives the slots of expressions that are fields and nothing else; nil when one is more.
func fieldSlots(programs []*expr.Program) (slots []int) {
	for _, p := range programs {
		slot, ok := p.Slot()
		if !ok {
			return nil
		}
		slots = append(slots, slot)
	}
	return slots
}

func slotsOf(keys []key) []int {
	slots := make([]int, len(keys))
	for i, k := range keys {
		slots[i] = k.slot
	}
	return slots
}

// keyColumns puts the by fields into the output.
func (c *compiler) keyColumns(s *StepSpec, t *table, keys []key) (slots []int, ok bool) {
	slots, ok = make([]int, len(keys)), true
	for i, k := range keys {
		slot, good := c.column(t, k.name, k.kind, s.By[i].Pos)
		slots[i], ok = slot, ok && good
	}
	return slots, ok
}
