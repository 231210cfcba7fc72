package plan

import (
	"fmt"
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/ops"
)

// columnSeen is when a silent key was seen last.
const columnSeen = "last_seen"

func (c *compiler) absence(b *built, in *edge) bool {
	a := b.spec.Absence
	if a.EventTime && !in.timed {
		c.noTime(b.spec, a.Pos)
		return false
	}
	keys, ok := c.keys(b.spec, in.scope)
	after, good := c.span("absence", a.AfterNs, a.Pos, a.EventTime)
	if !ok || !good {
		return false
	}
	if a.EventTime && !c.timeGoesOn(c.stepInputs[c.specIndex(b.spec)]) {
		c.warnings.Add(a.Pos, "", "set idle: {after, watermark: advance} at a source before it, or time: processing",
			"%s: when nothing arrives event time stands still, and nobody is missed", stepName(b.spec))
	}
	t := &table{what: stepName(b.spec)}
	config := ops.AbsenceConfig{Key: slotsOf(keys), After: after, EventTime: a.EventTime, Timed: in.timed, MaxKeys: c.maxKeys(b.spec)}
	if config.KeyOut, ok = c.keyColumns(b.spec, t, keys); !ok {
		return false
	}
	timeSlot := -1
	own := []struct {
		name string
		kind pipeline.Kind
		slot *int
	}{{columnTransition, pipeline.String, &config.TransitionSlot}, {columnSeen, pipeline.Int, &config.SeenSlot}, {columnTime, pipeline.Int, &timeSlot}}
	if !in.timed {
		own = own[:2]
	}
	for _, o := range own {
		if *o.slot, ok = c.column(t, o.name, o.kind, b.spec.Pos); !ok {
			return false
		}
	}
	config.Width = t.width()
	b.stateful, b.validate, b.fixed = true, config.Validate, t
	b.out = []edge{{scope: t, timed: in.timed}}
	b.keyedBy(config.Key, stateKeyWhole, config.KeyOut)
	b.new = func() pipeline.Operator { return withTime(ops.NewAbsence(config), timeSlot) }
	b.params = func() string {
		return fmt.Sprintf("by %s after %d event %v timed %v max_keys %d", keyText(keys), after, a.EventTime, in.timed, config.MaxKeys)
	}
	return true
}

// timeGoesOn tells whether a source behind the inputs lets its time go on while it is idle.
func (c *compiler) timeGoesOn(inputs []target) bool {
	for _, t := range inputs {
		if t.step < 0 {
			if idle := c.spec.Sources[t.source].Idle; idle != nil && idle.Advance {
				return true
			}
		} else if c.timeGoesOn(c.stepInputs[t.step]) {
			return true
		}
	}
	return false
}

func (c *compiler) specIndex(s *StepSpec) int { return slices.Index(c.spec.Steps, s) }
