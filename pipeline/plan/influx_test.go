package plan

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// TestIdentityOfPoints: a key of the rows that is no tag is warned of, also behind a select that renames it; distinct and a tag make it silent.
func TestIdentityOfPoints(t *testing.T) {
	text := func(s string) Text { return Text{Value: s} }
	steps := []*StepSpec{
		{UID: text("w"), By: []Text{text("device"), text("room")}, Window: &WindowSpec{EarlyMs: 5}},
		{UID: text("s"), Select: &SelectSpec{Columns: []ColumnSpec{{text("dev"), text("device")}, {text("room"), text("room")}}}},
		{UID: text("f")},
	}
	c := &compiler{spec: &Spec{Sources: []*SourceSpec{{Topic: text("dev/{device}/x")}}, Steps: steps}, stepInputs: [][]target{{{source: 0, step: -1}}, {{source: -1, step: 0}}, {{source: 0, step: -1}}}}
	for _, k := range []struct {
		in       target
		tags     []string
		distinct bool
		want     string // warnings; "": none
	}{
		{target{source: -1, step: 2}, nil, false, "device alone"},
		{target{source: 0, step: -1}, nil, false, "device alone"},
		{target{source: -1, step: 2}, []string{"device"}, false, ""},
		{target{source: -1, step: 2}, nil, true, ""},
		{target{source: -1, step: 2}, []string{"$seq"}, false, ""},
		{target{source: -1, step: 1}, []string{"dev"}, false, "room alone"},
		{target{source: -1, step: 1}, []string{"dev", "room"}, false, "early panes"},
		{target{source: -1, step: 0}, []string{"room"}, false, "device alone"},
	} {
		c.warnings = nil
		var out []PointColumn
		for _, tag := range k.tags {
			out = append(out, PointColumn{Name: tag, From: tag, Kind: pipeline.String, Tag: true})
		}
		c.distinguishes(&SinkSpec{UID: text("p"), Influx: &InfluxTarget{Distinct: k.distinct}}, k.in, out)
		got := ""
		for _, w := range c.warnings {
			got += w.Found + "\n"
		}
		if (k.want == "") != (got == "") || !strings.Contains(got, k.want) {
			t.Errorf("%+v: %q, want %q", k, got, k.want)
		}
	}
}
