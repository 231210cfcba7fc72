package agent

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
)

// twoBranches share a source and no step.
const twoBranches = `
  p:
    start: earliest
    tolerate: 0
    checkpoint: {interval: 50ms}
    restart: {strategy: fixed-delay, attempts: 2, delay: 10ms, failover: FAILOVER}
    steps:
      - {uid: all, from: s, select: [id, k]}
      - {uid: bad, from: s, filter: "id > 0"}
    sinks:
      - {uid: other, from: bad, commit: immediate, http: {url: "URL"}}
      - {uid: now, from: all, commit: immediate, http: {url: "URL"}}
`

// branches is an agent whose step bad fails for ever at the message 250.
func branches(t *testing.T, failover string) *bench {
	b := newBench(t, strings.Replace(twoBranches, "FAILOVER", failover, 1))
	b.spoil = func(g *plan.Graph) {
		for _, s := range g.Steps {
			if s.UID == "bad" {
				made := s.New
				s.New = func() pipeline.Operator { return touchy{made()} }
			}
		}
	}
	return b
}

func pipelineOf(s *api.Status, name string) *api.PipelineStatus {
	for i := range s.Pipelines {
		if s.Pipelines[i].Name == name {
			return &s.Pipelines[i]
		}
	}
	return &api.PipelineStatus{}
}

// TestFailoverRegion: what shares no step with the failure is not restarted and loses nothing; the part that failed counts its restarts.
func TestFailoverRegion(t *testing.T) {
	b := branches(t, "region")
	b.start()
	b.put(1, 300)
	s := b.await("one to fail and one to deliver", func(s *api.Status) bool {
		good := pipelineOf(s, "p/now")
		return pipelineOf(s, "p/other").State == "failed" && good.Position >= 300 && good.Checkpoint.Position >= 300 && good.Sinks[0].Pending == 0
	})
	if len(s.Pipelines) != 2 || pipelineOf(&s, "p/now").Restarts != 0 || pipelineOf(&s, "p/other").Restarts != 2 {
		t.Errorf("status %+v", s.Pipelines)
	}
	var metrics bytes.Buffer
	b.agent.WriteMetrics(&metrics)
	for _, want := range []string{`weir_pipeline_restarts_total{pipeline="p/other"} 2`, `weir_pipeline_restarts_total{pipeline="p/now"} 0`} {
		if !strings.Contains(metrics.String(), want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	b.put(301, 310)
	b.await("more", func(s *api.Status) bool { return settledOne(pipelineOf(s, "p/now"), 310) })
	b.halt()
	b.wantIDs("p/now", [2]int{1, 310})

	b.spoil = nil // mended: the part goes on where it stood
	b.start()
	b.await("both", func(s *api.Status) bool {
		return settledOne(pipelineOf(s, "p/now"), 310) && settledOne(pipelineOf(s, "p/other"), 310)
	})
	b.commandsOnRegions()
	b.halt()
	b.wantIDs("p/now", [2]int{1, 310})
	if ids, _ := b.ids("p/other", "other"); len(ids) != 310 {
		t.Errorf("the part that failed delivered %d rows, want 310", len(ids))
	}
}

func settledOne(p *api.PipelineStatus, position uint64) bool {
	return p.State == "running" && p.Position >= position && p.Checkpoint.Position >= position && len(p.Sinks) > 0 && p.Sinks[0].Pending == 0
}

// commandsOnRegions: the pipeline's name means all of its regions.
func (b *bench) commandsOnRegions() {
	b.t.Helper()
	ctx := b.t.Context()
	if err := b.agent.StopPipeline(ctx, "p"); err != nil {
		b.t.Fatal(err)
	}
	if s := b.agent.Status(); s.Pipelines[0].State != "stopped" || s.Pipelines[1].State != "stopped" {
		b.t.Errorf("stopped: %+v", s.Pipelines)
	}
	if err := b.agent.StartPipeline(ctx, "p/now"); err != nil {
		b.t.Fatal(err)
	}
	b.await("one region", func(s *api.Status) bool {
		return pipelineOf(s, "p/now").State == "running" && pipelineOf(s, "p/other").State == "stopped"
	})
	if err := b.agent.StartPipeline(ctx, "p"); err != nil {
		b.t.Fatal(err)
	}
	b.await("both regions", func(s *api.Status) bool {
		return s.Pipelines[0].State == "running" && s.Pipelines[1].State == "running"
	})
	if i, err := b.agent.TriggerCheckpoint(ctx, "p"); err != nil || i.Position < 310 {
		b.t.Errorf("checkpoint: %+v %v", i, err)
	}
	if _, err := b.agent.Checkpoints("p"); err == nil || !strings.Contains(err.Error(), "name one of p/now, p/other") {
		b.t.Errorf("checkpoints of both: %v", err)
	}
	if l, err := b.agent.Checkpoints("p/other"); err != nil || len(l) == 0 {
		b.t.Errorf("checkpoints of one: %v %v", l, err)
	}
	if err := b.agent.TapPipeline(ctx, "p", api.TapOptions{Steps: []string{"bad"}}, func(line []byte, _ bool) error { return errSeen }); err != errSeen {
		b.t.Errorf("tap: %v", err)
	}
}

var errSeen = errors.New("seen")

// TestFailoverFull: the whole pipeline is restarted, and fails.
func TestFailoverFull(t *testing.T) {
	b := branches(t, "full")
	b.start()
	b.put(1, 300)
	s := b.await("failure", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if len(s.Pipelines) != 1 || s.Pipelines[0].Name != "p" || s.Pipelines[0].Restarts != 2 {
		t.Errorf("status %+v", s.Pipelines)
	}
	b.halt()
}

// TestFailoverDoesNotChangeUnderState: neither way; set back, the pipeline goes on.
func TestFailoverDoesNotChangeUnderState(t *testing.T) {
	for before, after := range map[string]string{"full": "region", "region": "full"} {
		t.Run(before+" to "+after, func(t *testing.T) {
			b := newBench(t, strings.Replace(twoBranches, "FAILOVER", before, 1))
			b.start()
			b.put(1, 100)
			b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
			b.halt()
			text := b.text
			b.text = strings.Replace(text, "failover: "+before, "failover: "+after, 1)
			b.start()
			s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
			if !strings.Contains(s.Pipelines[0].Error, "restart.failover: "+before) {
				t.Errorf("refused with %s", s.Pipelines[0].Error)
			}
			b.put(101, 150)
			b.halt()
			b.text = text
			b.start()
			b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 150 })
			name := b.agent.Status().Pipelines[0].Name
			b.halt()
			if before == "region" {
				name = "p/now"
			}
			b.wantIDs(name, [2]int{1, 150})
		})
	}
}
