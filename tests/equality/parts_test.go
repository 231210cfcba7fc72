package equality

import (
	"fmt"
	"io"
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

// refusedAt are the positions of the messages that a run's sources refuse, and what is wrong with its sources' counts.
func refusedAt(t *rapid.T, g *plan.Graph, entries []pipeline.Entry) (at []int, wrong string) {
	all := streams{}
	p, err := exec.New(exec.Options{
		Graph: g, Generation: 1, Sink: all.sink, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &blocks{entries: entries, size: 64, end: io.EOF}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Ledger().Sources {
		if s.Received+s.Split != s.Rows+s.Tombstones+s.Dead {
			wrong = fmt.Sprintf("source %s is not balanced: %+v", s.Name, s)
		}
	}
	if dead := all[exec.DeadSink]; dead != nil {
		for _, letter := range dead.want {
			var seq, pos int
			var chain string
			if _, err := fmt.Sscanf(letter, "%d chain %s position %d", &seq, &chain, &pos); err != nil {
				t.Fatal(err)
			}
			if strings.Contains(letter, `"step":"$source/`) {
				at = append(at, pos)
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at), wrong
}

// TestAPartRefusesWhatItUses: a part decodes what its own steps and sinks use. What it refuses, the whole refuses; what the whole refuses, some part
// does; and each part's counts are balanced.
func TestAPartRefusesWhatItUses(t *testing.T) {
	differed := 0
	rapid.Check(t, func(t *rapid.T) {
		d := draw(t)
		parts := partsOf(t, d.text)
		whole, wrong := refusedAt(t, compile(t, d.text), d.entries)
		if wrong != "" {
			t.Fatalf("%s\n%s", wrong, d.text)
		}
		var some []int
		for _, g := range parts {
			at, wrong := refusedAt(t, g, d.entries)
			if wrong != "" {
				t.Fatalf("%s\n%s", wrong, d.text)
			}
			for _, pos := range at {
				if !slices.Contains(whole, pos) {
					t.Fatalf("a part refuses the message at %d, the whole does not\n%s", pos, d.text)
				}
			}
			if len(at) < len(whole) {
				differed++
			}
			some = append(some, at...)
		}
		for _, pos := range whole {
			if !slices.Contains(some, pos) {
				t.Fatalf("the whole refuses the message at %d, no part does\n%s", pos, d.text)
			}
		}
	})
	t.Logf("%d parts took messages that the whole refuses", differed)
}
