package plan

import (
	"slices"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/codec/zones"
	"github.com/weirstream/weir/pipeline/suggest"
)

// local makes the reader of local times; nil: there is none.
func (c *compiler) local(t *TimeSpec, unit codec.Unit) *codec.Local {
	zone := t.Zone.Value
	switch {
	case zone == "" && unit == codec.LocalTime:
		c.problems.Add(t.Field.Pos, "", "a name of the time zone database, zone: Europe/Berlin", "time: local times need the setting zone")
		return nil
	case zone == "" && t.Layout.Value != "", zone != "" && t.Layout.Value != "" && unit != codec.LocalTime:
		c.problems.Add(t.Layout.Pos, "", "unit: local", "time: a layout is for local times")
		return nil
	case zone == "":
		return nil
	case unit != codec.LocalTime && unit != codec.RFC3339:
		c.problems.Add(t.Zone.Pos, "", "unit: local, or rfc3339 for times without a zone", "time: a number in %s is the same in every zone", unit)
		return nil
	}
	if _, err := zones.Load(zone); err != nil {
		c.problems.Add(t.Zone.Pos, suggest.Nearest(zone, zones.Names()), "a name of the time zone database, such as Europe/Berlin", "time: %s", err)
		return nil
	}
	fold, foldErr := codec.ParseFold(orElse(t.Fold, "first"))
	gap, gapErr := codec.ParseGap(orElse(t.Gap, "reject"))
	if foldErr != nil || gapErr != nil {
		return nil // said where the settings were read
	}
	l, err := codec.NewLocal(t.Layout.Value, zone, fold, gap)
	if err != nil {
		c.problems.Add(t.Layout.Pos, "", `a layout such as "2006-01-02 15:04:05" (2 January 2006, 15:04:05) or "02.01.2006 15:04"`, "time: %s", err)
	}
	return l
}

// watermarkBy finds the slots of the key that has a watermark of its own.
func (c *compiler) watermarkBy(o *origin) (slots []int) {
	t := o.spec.Time
	for _, f := range t.WatermarkBy {
		p, err := pipeline.ParsePath(f.Value)
		if err != nil {
			c.problems.Add(f.Pos, "", "a field such as device", "watermark_by: %s", err)
			continue
		}
		slot, _, err := o.Field(p)
		switch {
		case err != nil:
			c.problems.Add(f.Pos, suggest.Nearest(f.Value, o.Names()), "", "watermark_by: %s", err)
		case slices.Contains(slots, slot):
			c.problems.Add(f.Pos, "", "each field stands once", "watermark_by: the field %s comes twice", f)
		default:
			slots = append(slots, slot)
		}
	}
	if len(t.WatermarkBy) > 0 && o.spec.Idle == nil {
		c.warnings.Add(t.WatermarkBy[0].Pos, "", "set idle", "source %s: a key that falls silent holds the time of all others for ever", o.spec.Name)
	}
	return slots
}
