package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/snapshot"
)

// TestRule20_StoppedPipelineHoldsItsPosition like a failed one: stopping gives up no records.
func TestRule20_StoppedPipelineHoldsItsPosition(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log")+pipelineNamed("q", "log"))
	b.start()
	b.put(1, 50)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 50 })
	if err := b.agent.StopPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.put(51, 400)
	b.await("the other goes on", func(s *api.Status) bool { return s.Pipelines[1].Position >= 400 })
	held, ok := b.agent.journal.Stats().Holders[b.agent.holderName("p")]
	if !ok || held > 50 {
		t.Errorf("the stopped pipeline holds %d (%v), want at most 50", held, ok)
	}
	if p := b.agent.Status().Pipelines[0]; p.Position != uint64(held) || p.Lag < 350 || p.LagBytes == 0 {
		t.Errorf("the status has it at %d, %d records and %d bytes behind: the journal grows for it, and nobody sees why", p.Position, p.Lag, p.LagBytes)
	}
	if err := b.agent.StartPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.await("both are there", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 400 })
	b.halt()
	b.wantIDs("p", [2]int{1, 400})
	b.wantIDs("q", [2]int{1, 400})
}

func TestProgressTellsStuckFromWaiting(t *testing.T) {
	start := time.Now()
	late := start.Add(2 * stuckAfter)
	for _, c := range []struct {
		name       string
		at, end    pipeline.Position
		pushedBack bool
		want       bool
	}{
		{"work and no move", 10, 20, false, true},
		{"nothing to do", 20, 20, false, false},
		{"a full sink holds it", 10, 20, true, false},
		{"it moved", 11, 20, false, false},
	} {
		p := &stillness{}
		observe := func(at, end pipeline.Position, pushedBack bool, now time.Time) bool {
			return p.observe(uint64(at), at < end && !pushedBack, now, stuckAfter)
		}
		observe(10, 20, false, start)
		if got := observe(c.at, c.end, c.pushedBack, late); got != c.want {
			t.Errorf("%s: stuck %v", c.name, got)
		}
	}
}

func TestLedgerSumsAreChecked(t *testing.T) {
	good := api.PipelineStatus{
		Sources: []api.SourceLedger{{Name: "s", Received: 10, Rows: 7, Tombstones: 1, Dead: 2}},
		Sinks:   []api.SinkLedger{{UID: "k", Emitted: 5, Confirmed: 1, Pending: 2, Dropped: 1, Rejected: 1}, {UID: "$dead", Emitted: 2, Confirmed: 2}},
		Dead:    &api.DeadStatus{Kept: 3, Held: 1, Evicted: 1, Requeued: 1, Sink: &api.DeadSinkStatus{Stream: "x", Kept: 3, Before: 1, Delivered: 1, Pending: 1}},
	}
	if ok, where := balance(&good); !ok {
		t.Errorf("balanced ledger: %s", where)
	}
	bad := good
	bad.Sources = []api.SourceLedger{{Name: "s", Received: 10, Rows: 7}}
	if ok, where := balance(&bad); ok || !strings.Contains(where, "source s received 10 but accounts for 7") {
		t.Errorf("a lost record is not seen: %v %q", ok, where)
	}
	for want, spoil := range map[string]func(p *api.PipelineStatus){
		"sink k emitted 5 but accounts for 4":     func(p *api.PipelineStatus) { p.Sinks[0].Rejected = 0 },
		"refused 2 but 1 became dead letters":     func(p *api.PipelineStatus) { p.Sinks[1].Emitted, p.Sinks[1].Confirmed = 1, 1 },
		"dead letters kept 3 but accounts for 2":  func(p *api.PipelineStatus) { p.Dead.Held = 0 },
		"dead letters for x 4 but accounts for 3": func(p *api.PipelineStatus) { p.Dead.Sink.Kept = 4 },
	} {
		bad, dead, sink := good, *good.Dead, *good.Dead.Sink
		bad.Sinks, bad.Dead, dead.Sink = slices.Clone(good.Sinks), &dead, &sink
		spoil(&bad)
		if ok, where := balance(&bad); ok || !strings.Contains(where, want) {
			t.Errorf("%v %q, want %q", ok, where, want)
		}
	}
}

func TestLetGoRangeIsExact(t *testing.T) {
	if l := lostBetween(snapshot.UUID{}, nil, 50); l != nil {
		t.Errorf("a new pipeline lost %v", l)
	}
}
