package plan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/pipeline"
)

// schemaPlan has a source with these types; delta keeps state by device, which comes to it under the name d.
func schemaPlan(t *testing.T, device pipeline.Kind, temp pipeline.Kind) *Graph {
	t.Helper()
	s := &SourceSpec{Name: text("s"), Topic: text("s/x"), QoS: 1}
	s.Fields = []FieldSpec{{Name: text("device"), Kind: device}, {Name: text("temp"), Kind: temp}}
	named := selectStep("named", "s", "temp")
	named.Select.Columns = append(named.Select.Columns, ColumnSpec{text("d"), text("device")})
	delta := deltaStep("change", "named", "step")
	delta.By = texts("d")
	return mustCompile(t, &Spec{Sources: []*SourceSpec{s}, Steps: []*StepSpec{named, delta}, Sinks: []*SinkSpec{fileSink("a", "change")}})
}

func TestSchemaChanges(t *testing.T) {
	g := schemaPlan(t, pipeline.String, pipeline.Float)
	for name, c := range map[string]struct {
		before string
		want   string
	}{
		"none":           {Meaning(g), ""},
		"a type":         {Meaning(schemaPlan(t, pipeline.String, pipeline.Int)), "s: column temp was int and is float"},
		"a key":          {Meaning(schemaPlan(t, pipeline.Int, pipeline.Float)), "s: column device was int and is string: it is a key of change, and rows do not find what is kept under the keys of before"},
		"new":            {strings.ReplaceAll(Meaning(g), " field \"temp\" float\n", ""), "s: column temp (float) is new"},
		"gone":           {strings.ReplaceAll(Meaning(g), " field \"temp\"", " field \"hum\" int\n field \"temp\""), "s: column hum (int) is gone"},
		"another source": {strings.ReplaceAll(Meaning(g), `source "s"`, `source "t"`), ""},
		"of a step":      {Meaning(g) + "step \"x\" flatten\n field \"temp\" int scalar true\n", ""},
		"no type":        {strings.ReplaceAll(Meaning(g), `"temp" float`, `"temp" `+pipeline.Null.String()), "s: column temp was not declared and is float"},
		"rubbish":        {"source \"\n field \"\n field \"x\" int\n", ""},
	} {
		var got []string
		for _, c := range SchemaChanges(c.before, g) {
			got = append(got, fmt.Sprintf("%s: %s", c.Source, c.String()))
		}
		if strings.Join(got, "\n") != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
