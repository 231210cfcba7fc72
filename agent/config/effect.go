package config

import (
	"slices"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/topic"
)

// What is here refuses settings that would say nothing beside the others of their object: whoever wrote them expects something of them.

// idle refuses those of an object's settings that were written though they have no effect, for a reason.
func (r *reader) idle(n *node, allowed, reason string, keys ...string) {
	for _, e := range n.entries {
		if slices.Contains(keys, e.key.text) {
			r.problems.Add(e.key.pos, "", allowed, "%s has no effect: %s", e.key.text, reason)
		}
	}
}

// effect refuses settings of a window that never show. given are the places of what was written.
func (w *windowSetting) effect(r *reader, given map[string]plan.Pos) {
	const early = "early is how often a window comes out before its end, below its size"
	switch {
	case w.Kind != plan.WindowTumbling && w.Kind != plan.WindowHopping: // a session is as long as rows come
	case w.EarlyMs > w.SizeMs && w.SizeMs > 0:
		r.problems.Add(given["early"], "", early, "early is longer than the window")
	case w.EarlyMs == w.SizeMs && w.Kind == plan.WindowTumbling && w.OffsetMs == 0 && w.EarlyMs > 0:
		r.problems.Add(given["early"], "", early, "early is the window's size: it never comes out before its end")
	}
	if w.Processing && w.LatenessMs > 0 {
		r.problems.Add(given["allowed_lateness"], "", "allowed_lateness is for windows of event time",
			"allowed_lateness has no effect: with time: processing the time of a row is that of its arrival, and no row is late")
	}
}

// checkDecoderSettings refuses what other decoders have.
func checkDecoderSettings(r *reader, n *node, d *plan.DecodeSpec) {
	if d.As.Value == "" {
		return
	}
	if d.As.Value != plan.DecodeCSV {
		r.idle(n, "separator is for csv", "the decoder is "+d.As.Value, "separator")
	}
	switch {
	case d.As.Value != plan.DecodeSparkplug:
		r.idle(n, "rows, rebirth and rebirth_every are for sparkplug", "the decoder is "+d.As.Value, "rows", "rebirth", "rebirth_every")
	case !d.Rebirth:
		r.idle(n, "leave it out, or rebirth: true", "rebirth is false", "rebirth_every")
	}
}

// checkDecoders refuses decoders of a source that no message reaches.
func checkDecoders(r *reader, n *node, s *Source) {
	all := ""
	for i := range s.Decode {
		d := &s.Decode[i]
		switch {
		case all != "":
			r.problems.Add(d.Pos, "", "the decoder without a topic comes last", "the decoder as %s reads nothing: the one before takes every topic", d.As)
		case d.Topic.Value == "":
			all = d.As.Value
		case topic.Validate(d.Topic.Value) != nil || s.Filter == "": // said
		case !topic.Overlap(d.Topic.Value, s.Filter):
			r.problems.Add(d.Topic.Pos, "", "topics of the source, "+s.Filter, "the decoder as %s reads nothing: no topic of the source matches %s", d.As, quote(d.Topic.Value))
		case slices.ContainsFunc(s.Decode[:i], func(before plan.DecodeSpec) bool { return before.Topic.Value == d.Topic.Value }):
			r.problems.Add(d.Topic.Pos, "", "each topic stands once, the first that matches counts", "the decoder as %s reads nothing: one before has the topic %s", d.As, quote(d.Topic.Value))
		}
	}
}

// checkSourceTime refuses what is about event time where there is none.
func checkSourceTime(r *reader, n *node, s *Source) {
	if s.Time == nil && s.Idle != nil && !slices.ContainsFunc(n.entries, func(e entry) bool { return e.key.text == "time" }) {
		r.idle(n, "give the source a time, or leave idle out", "the source has no event time that could stand still or go on", "idle")
	}
}

// checkTimeSettings refuses what is about zones or keys where there are none.
func checkTimeSettings(r *reader, n *node, t *plan.TimeSpec) {
	if t.Zone.Value == "" {
		r.idle(n, "give zone", "a clock is put forward and back in a zone", "fold", "gap")
	}
	if len(t.WatermarkBy) == 0 {
		r.idle(n, "give watermark_by", "the source has one watermark", "watermark_keys")
	}
}

// warnIdle tells of a setting of a pipeline that changes nothing.
func (c *Config) warnIdle(p *Pipeline) {
	if p.Graph != nil && p.Parallelism != 1 && !slices.ContainsFunc(p.Graph.Tasks, func(t plan.Task) bool { return len(t.Regions) > 0 }) {
		c.Warnings.Add(p.Pos, "", "parallelism: 1", "pipeline %s has a parallelism and no step that is divided by key", p.Name)
	}
}
