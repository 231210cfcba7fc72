package plan

import (
	"fmt"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/window"
)

// The columns of a window's rows besides its key and aggregates.
const (
	columnStart    = "window_start"
	columnEnd      = "window_end"
	columnRevision = "revision"
)

func (c *compiler) window(b *built, in *edge) bool {
	w := b.spec.Window
	if !in.timed {
		c.noTime(b.spec, w.Pos)
		return false
	}
	keys, ok := c.keys(b.spec, in.scope)
	t := &table{what: stepName(b.spec)}
	config := window.TumblingConfig{
		Key: slotsOf(keys), SizeMs: w.SizeMs, OffsetMs: w.OffsetMs, LatenessMs: w.LatenessMs, MaxKeys: c.maxKeys(b.spec), TTL: ownTTL(b.spec),
	}
	config.StartSlot, config.EndSlot = t.add(columnStart, pipeline.Int), t.add(columnEnd, pipeline.Int)
	columns, good := c.keyColumns(b.spec, t, keys)
	config.KeyOut, ok = columns, ok && good
	var text []string
	for _, a := range b.spec.Aggregate {
		agg, kind, canonical := c.aggregate(b, a, in.scope)
		if agg == nil {
			ok = false
			continue
		}
		slot, good := c.column(t, a.Name.Value, kind, a.Name.Pos)
		agg.Slot, ok = slot, ok && good
		config.Aggs = append(config.Aggs, *agg)
		text = append(text, a.Name.Value+"="+canonical)
	}
	if config.RevisionSlot, good = c.column(t, columnRevision, pipeline.Int, b.spec.Pos); !good || !ok {
		return false
	}
	config.Width = t.width()
	b.stateful, b.validate, b.fixed = true, config.Validate, t
	b.out = []edge{{scope: t, timed: true}, *in}
	b.new = func() pipeline.Operator { return window.NewTumbling(config) }
	b.params = func() string {
		return fmt.Sprintf("tumbling %d offset %d lateness %d by %s ttl %d max_keys %d\n%s",
			w.SizeMs, w.OffsetMs, w.LatenessMs, keyText(keys), config.TTL, config.MaxKeys, strings.Join(text, "\n"))
	}
	return true
}

// ownTTL is a ttl set on the step itself. A window's state ends with the window: the pipeline's state.ttl would only drop
// windows that have not fired yet.
func ownTTL(s *StepSpec) int64 {
	if s.TTLNs == nil {
		return 0
	}
	return *s.TTLNs
}
