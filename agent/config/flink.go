package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/suggest"
)

// Flink's option names stand at the level of a pipeline, flat, as in Flink's config: they are put in the place of weir's
// settings before the pipeline is read, so that each keeps its line and column and a doubled setting is found.

// flinkSetting is where a Flink name leads.
type flinkSetting struct {
	section string // "" for the pipeline itself
	key     string
	setting *setting
}

// flinkSettings maps every accepted Flink name.
func flinkSettings(pipeline []*setting) map[string]flinkSetting {
	out := map[string]flinkSetting{}
	add := func(section string, list []*setting) {
		for _, s := range list {
			for _, name := range s.flink {
				out[name] = flinkSetting{section, s.key, s}
			}
		}
	}
	add("", pipeline)
	add("checkpoint", checkpointObject.section.list)
	add("state", stateObject.section.list)
	add("restart", restartObject.section.list)
	return out
}

// unflink rewrites the Flink names among the entries of a pipeline.
func unflink(r *reader, n *node, own []*setting) *node {
	if n.shape != shapeMapping || !slices.ContainsFunc(n.entries, func(e entry) bool { return strings.Contains(e.key.text, ".") || e.key.text == "restart-strategy" }) {
		return n
	}
	known := flinkSettings(own)
	out := &node{pos: n.pos, shape: shapeMapping}
	var moved []entry
	for _, e := range n.entries {
		if _, ok := known[e.key.text]; ok {
			moved = append(moved, e)
			continue
		}
		if instead, ok := flinkNotYet[e.key.text]; ok {
			r.problems.Add(e.key.pos, "", instead, "%s is not in this release", quote(e.key.text))
			continue
		}
		if strings.Contains(e.key.text, ".") {
			r.problems.Add(e.key.pos, suggest.Nearest(e.key.text, slices.Collect(maps.Keys(known))), "docs/flink-names.md lists those that are",
				"%s is no Flink name that is understood", quote(e.key.text))
			continue
		}
		out.entries = append(out.entries, e)
	}
	for _, e := range moved {
		to := known[e.key.text]
		key := *e.key
		key.text = to.key
		if to.section == "" {
			out.entries = append(out.entries, entry{&key, e.value})
			continue
		}
		out.into(to.section, e.key.pos, entry{&key, e.value})
	}
	return out
}

// into puts e into the section of a mapping, on a copy.
func (n *node) into(section string, at plan.Pos, e entry) {
	for i, have := range n.entries {
		if have.key.text == section && (have.value.shape == shapeMapping || have.value.shape == shapeNull) {
			n.entries[i].value = &node{pos: have.value.pos, shape: shapeMapping, entries: append(slices.Clone(have.value.entries), e)}
			return
		}
	}
	n.entries = append(n.entries, entry{&node{pos: at, shape: shapeScalar, text: section}, &node{pos: at, shape: shapeMapping, entries: []entry{e}}})
}
