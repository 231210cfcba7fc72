package agent

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/exec"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

// deadBench runs two pipelines over one source: q refuses nothing that p does not.
func deadBench(t *testing.T) *bench {
	b := newBench(t, strings.Replace(pipelineNamed("p", "log"), "    steps:", "    dead_letters: {sink: now, max_bytes: 8MiB, max_age: 90d}\n    steps:", 1)+pipelineNamed("q", "log"))
	return b
}

// bad journals messages that the source refuses.
func (b *bench) bad(first, last int) {
	b.t.Helper()
	for i := first; i <= last; i++ {
		payload := fmt.Appendf(nil, `{"id":"bad %d","ts":1767225600000}`, i)
		if i%2 == 0 {
			payload = append(payload, 0xff, 0)
		}
		if _, err := b.agent.journal.Append(&pipeline.Entry{Kind: pipeline.EntryMessage, Source: "s", QoS: 1, Topic: []byte("t/k"), Payload: payload}); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := b.agent.journal.Sync(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
}

func letters(t *testing.T, a *Agent, name string, q api.DeadQuery) (all []api.DeadLetter) {
	t.Helper()
	if err := a.DeadLetters(name, q, func(l api.DeadLetter) error { all = append(all, l); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// deadUpstream reads the stream of dead letters at the receiver.
func (b *bench) deadUpstream(name string) (all []exec.DeadLetter) {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID(name))
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: "now.dead"}, func(_ uint64, l wire.Line) error {
		var d exec.DeadLetter
		if err := json.Unmarshal(l.Data, &d); err != nil {
			return err
		}
		all = append(all, d)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

func kept(n uint64) func(s *api.Status) bool {
	return func(s *api.Status) bool {
		d := s.Pipelines[0].Dead
		for i := range s.Pipelines {
			if s.Pipelines[i].Lag > 0 {
				return false
			}
		}
		return settled(&api.Status{Pipelines: s.Pipelines[:1]}) && d != nil && d.Kept == n && d.Sink.Pending == 0
	}
}

// TestDeadLettersLiveAndStopped: they are listed, chosen and requeued on a running agent, on a stopped pipeline and on the files of a stopped agent; a requeued message passes
// its own pipeline alone; each letter is upstream once.
func TestDeadLettersLiveAndStopped(t *testing.T) {
	b := deadBench(t)
	b.start()
	b.put(1, 20)
	b.bad(1, 4)
	b.await("four letters", kept(4))
	all := letters(t, b.agent, "p", api.DeadQuery{})
	if len(all) != 4 || len(letters(t, b.agent, "p", api.DeadQuery{Reason: "decode", Step: "$source/s", Limit: 2, After: all[0].Seq})) != 2 ||
		len(letters(t, b.agent, "p", api.DeadQuery{Reason: "other"})) != 0 || len(letters(t, b.agent, "p", api.DeadQuery{Until: 1})) != 0 ||
		len(letters(t, b.agent, "p", api.DeadQuery{UpTo: all[1].Seq, Since: all[0].KeptMs})) != 2 {
		t.Fatalf("the filters do not choose: %v", all)
	}
	answer, err := b.agent.Requeue(t.Context(), "p", api.RequeueQuery{DeadQuery: api.DeadQuery{Seqs: []uint64{all[1].Seq, 9999}}})
	if err != nil || len(answer.Requeued) != 1 || answer.Requeued[0].Seq != all[1].Seq {
		t.Fatalf("%+v %v", answer, err)
	}
	e, err := b.agent.recordAt(pipeline.Position(answer.Requeued[0].Position))
	if err != nil || string(e.Payload) != "{\"id\":\"bad 2\",\"ts\":1767225600000}\xff\x00" || e.Source != "s" || e.QoS != 1 || string(e.Topic) != "t/k" {
		t.Errorf("the journal has %q %q, %v", e.Payload, e.Topic, err)
	}
	s := b.await("it is refused again", func(s *api.Status) bool { // as a new letter; q may be behind p
		q := s.Pipelines[1].Dead
		return kept(5)(s) && q != nil && q.Kept >= 4
	})
	if p, q := s.Pipelines[0], s.Pipelines[1]; p.Dead.Held != 4 || p.Dead.Requeued != 1 || p.Sources[0].Received != 25 || q.Sources[0].Received != 24 || q.Dead.Kept != 4 {
		t.Errorf("p %+v %+v, q %+v: a requeued message is for p alone", p.Dead, p.Sources, q.Sources)
	}
	if err := b.agent.StopPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	if n := len(letters(t, b.agent, "p", api.DeadQuery{})); n != 4 {
		t.Errorf("%d letters of a stopped pipeline, want 4", n)
	}
	if _, err := b.agent.Requeue(t.Context(), "p", api.RequeueQuery{DeadQuery: api.DeadQuery{Seqs: []uint64{all[0].Seq}}}); err != nil {
		t.Error(err)
	}
	if err := b.agent.StartPipeline(t.Context(), "p"); err != nil {
		t.Fatal(err)
	}
	b.await("started again", kept(6))
	b.halt()
	off, err := Stopped(b.parse())
	if err != nil {
		t.Fatal(err)
	}
	answer, err = off.Requeue(t.Context(), "p", api.RequeueQuery{DeadQuery: api.DeadQuery{Limit: 3}})
	if err != nil || len(answer.Requeued) != 3 || !answer.More || len(letters(t, off, "p", api.DeadQuery{})) != 1 {
		t.Errorf("%+v %v", answer, err)
	}
	if err := off.Close(); err != nil {
		t.Fatal(err)
	}
	b.start()
	s = b.await("the others are refused again", kept(9))
	if d := s.Pipelines[0].Dead; d.Held != 4 || d.Requeued != 5 || d.Evicted+d.Expired != 0 {
		t.Errorf("%+v", d)
	}
	b.halt()
	if up := b.deadUpstream("p"); len(up) != 9 {
		t.Errorf("upstream holds %d letters, want 9: %v", len(up), up)
	}
	b.wantIDs("p", [2]int{1, 20})
	b.wantIDs("q", [2]int{1, 20})
}

// TestRequeueOfRows: a step's letter needs the whole message, and that is asked for.
func TestRequeueOfRows(t *testing.T) {
	b := newBench(t, strings.Replace(pipelineNamed("p", "log"), "select: [id, k]", "select: {id: 1000 / id, k: k}", 1))
	b.start()
	b.put(0, 3)
	b.await("one letter", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Dead.Kept == 1 })
	all := api.RequeueQuery{}
	answer, err := b.agent.Requeue(t.Context(), "p", all)
	if err != nil || len(answer.Requeued) != 0 || len(answer.Refused) != 1 || !strings.Contains(answer.Refused[0].Why, "--whole") {
		t.Errorf("%+v %v", answer, err)
	}
	all.Whole = true
	if answer, err = b.agent.Requeue(t.Context(), "p", all); err != nil || len(answer.Requeued) != 1 {
		t.Errorf("%+v %v", answer, err)
	}
	s := b.await("refused again", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Dead.Kept == 2 })
	if p := s.Pipelines[0]; p.Sources[0].Received != 5 || p.Dead.Held != 1 {
		t.Errorf("%+v %+v", p.Sources, p.Dead)
	}
	b.halt()
}
