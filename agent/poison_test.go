package agent

import (
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// touchy wraps a step's operator with one that panics at a field's value.
type touchy struct{ pipeline.Operator }

func (o touchy) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	for _, v := range r.Slots {
		if v.Kind == pipeline.Int && v.Int() == 250 {
			panic("index out of range")
		}
	}
	o.Operator.Process(in, r, out)
}

// touchyDecoder panics at a message.
type touchyDecoder struct{ codec.Decoder }

func (d touchyDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	if strings.Contains(string(payload), `"id":250,`) {
		panic("slice bounds out of range")
	}
	return d.Decoder.Decode(payload, slots)
}

// TestPoisonMessageBecomesADeadLetter: the same where the decoder fails.
func TestPoisonMessageBecomesADeadLetter(t *testing.T) {
	text := strings.Replace(pipelineNamed("p", "log"), "attempts: 3", "attempts: 20", 1)
	b := newBench(t, strings.Replace(text, "start: earliest", "start: earliest\n    tolerate: 2", 1))
	b.spoil = func(g *plan.Graph) {
		made := g.Sources[0].Decoders[0].New
		g.Sources[0].Decoders[0].New = func() codec.Decoder { return touchyDecoder{made()} }
	}
	b.start()
	b.put(1, 300)
	s := b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 300 })
	if got := s.Pipelines[0]; got.Restarts < 2 || got.Sources[0].Dead != 1 {
		t.Errorf("%d restarts, sources %+v; want at least 2, and 1 dead letter", got.Restarts, got.Sources)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 249}, [2]int{251, 300})
}

// TestPoisonRecordBecomesADeadLetter: the pipeline is restarted, tries the record as often as it is told, and goes on without it; also
// after a restart of the agent, which has forgotten it.
func TestPoisonRecordBecomesADeadLetter(t *testing.T) {
	text := strings.Replace(pipelineNamed("p", "log"), "attempts: 3", "attempts: 20", 1)
	b := newBench(t, strings.Replace(text, "start: earliest", "start: earliest\n    tolerate: 2", 1))
	b.spoil = func(g *plan.Graph) {
		for _, s := range g.Steps {
			if s.UID == "all" {
				made := s.New
				s.New = func() pipeline.Operator { return touchy{made()} }
			}
		}
	}
	b.start()
	b.put(1, 300)
	s := b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 300 })
	if got := s.Pipelines[0]; got.Restarts < 2 || got.Steps[0].UID != "all" || got.Steps[0].Dead != 1 {
		t.Errorf("%d restarts, steps %+v; want at least 2, and 1 dead letter of the first", got.Restarts, got.Steps)
	}
	b.halt()
	b.start()
	b.put(301, 400)
	b.await("delivery after a restart", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 400 })
	b.halt()
	b.wantIDs("p", [2]int{1, 249}, [2]int{251, 400})
}
