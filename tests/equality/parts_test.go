package equality

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/pipeline/plan"
)

// partsOf are the graphs that failover: region makes of a config.
func partsOf(t fatal, text string) (graphs []*plan.Graph) {
	c, err := parse(text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	c.Pipelines[0].Restart.Failover = config.FailoverRegion
	for _, r := range c.Pipelines[0].Regions() {
		graphs = append(graphs, r.Graph)
	}
	return graphs
}

// withoutRefused is the journal without the messages that the whole pipeline's sources refuse: a part decodes only the fields that it uses, and
// takes a message that is bad in a field of another part.
func withoutRefused(t *rapid.T, d *drawn) []pipeline.Entry {
	entries := slices.Clone(d.entries)
	for _, dead := range d.all[exec.DeadSink].want {
		if !strings.Contains(dead, `"step":"$source/`) {
			continue
		}
		var seq, at int
		var chain string
		if _, err := fmt.Sscanf(dead, "%d chain %s position %d", &seq, &chain, &at); err != nil {
			t.Fatal(err)
		}
		entries[at-1].Kind, entries[at-1].Payload = pipeline.EntryTick, nil
	}
	return entries
}

// TestPartsGiveTheResultsOfTheWhole: a sink's stream is byte for byte the same whether its part runs alone or in the whole pipeline, and each
// sink is in one part.
func TestPartsGiveTheResultsOfTheWhole(t *testing.T) {
	several := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		parts, entries := partsOf(t, d.text), withoutRefused(t, d)
		whole, _ := undisturbed(t, compile(t, d.text), entries)
		if len(parts) > 1 {
			several++
		}
		sinks := 0
		for _, g := range parts {
			alone, _ := undisturbed(t, g, entries)
			for uid, got := range alone {
				if uid == exec.DeadSink {
					continue
				}
				sinks++
				if want := whole[uid]; want == nil || !slices.Equal(want.want, got.want) {
					t.Fatalf("sink %s: %+v in its part, %+v in the whole\n%s", uid, got.want, want.want, d.text)
				}
			}
		}
		if sinks != len(d.all)-1 {
			t.Fatalf("%d sinks in the parts, %d in the whole\n%s", sinks, len(d.all)-1, d.text)
		}
	})
	t.Logf("%d pipelines fell into several parts", several)
}
