package agent

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// alarmed tells when its operator fails.
type alarmed struct {
	pipeline.Operator
	failed *atomic.Bool
}

func (o alarmed) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	defer func() {
		if cause := recover(); cause != nil {
			o.failed.Store(true)
			panic(cause)
		}
	}()
	o.Operator.Process(in, r, out)
}

// struck loses, or repeats, ten rows of its part when another part has failed: what a restart of one part must not do to the others.
type struck struct {
	pipeline.Operator
	failed *atomic.Bool
	times  int // each of the ten rows is worked on
	left   int
}

func (o *struck) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	times := 1
	if o.failed.Load() && o.left > 0 {
		o.left--
		times = o.times
	}
	for range times {
		o.Operator.Process(in, r, out)
	}
}

// struckIDs runs two parts of which one fails, and gives the ids that the other one delivered.
func struckIDs(t *testing.T, times int) string {
	t.Helper()
	b := branches(t, "region")
	var failed atomic.Bool
	fails := b.spoil
	b.spoil = func(g *plan.Graph) {
		fails(g)
		for _, s := range g.Steps {
			made := s.New
			switch s.UID {
			case "bad":
				s.New = func() pipeline.Operator { return alarmed{made(), &failed} }
			case "all":
				s.New = func() pipeline.Operator { return &struck{made(), &failed, times, 10} }
			}
		}
	}
	b.start()
	b.put(1, 250)
	b.await("one part to fail", func(s *api.Status) bool {
		return pipelineOf(s, "p/other").State == "failed" && settledOne(pipelineOf(s, "p/now"), 250)
	})
	b.put(251, 300)
	b.await("the other to go on", func(s *api.Status) bool { return settledOne(pipelineOf(s, "p/now"), 300) })
	b.halt()
	ids, _ := b.ids("p/now", "now")
	return fmt.Sprint(ids)
}

// TestAStruckPartIsSeen: the oracle of TestFailoverRegion, the ids that upstream holds, finds a part that lost or repeated rows when another one failed.
func TestAStruckPartIsSeen(t *testing.T) {
	want := struckIDs(t, 1)
	for name, times := range map[string]int{"lost": 0, "repeated": 2} {
		if got := struckIDs(t, times); got == want {
			t.Errorf("rows that were %s are not seen: %s", name, got)
		}
	}
}
