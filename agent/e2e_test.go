package agent

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// TestMessagesInWindowsOut: from a broker through the agent to the receiver. A graceful stop leaves no replay, and what its last
// checkpoint released is delivered before it ends.
func TestMessagesInWindowsOut(t *testing.T) {
	broker, err := rig.NewBroker(rig.BrokerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	b := newBench(t, strings.Replace(pipelineNamed("p", "log"), "interval: 50ms", "interval: 1h", 1))
	b.text = strings.Replace(b.text, "sources:", fmt.Sprintf("brokers: {none: {url: \"tcp://%s\", client_id: e2e}}\nsources:", broker.Addr()), 1)
	b.startWith(func(a *Agent) { a.lastWait = patience })
	b.await("session", func(s *api.Status) bool { return s.Sessions[0].State == "ready" && s.Pipelines[0].State == "running" })
	for i := 1; i <= 100; i++ {
		broker.Publish("t/k", 1, false, fmt.Appendf(nil, `{"id":%d,"ts":%d}`, i, int64(1767225600000)+int64(i)))
	}
	b.await("windows", func(s *api.Status) bool {
		return s.Pipelines[0].Sources != nil && s.Pipelines[0].Sources[0].Received == 100 && s.Pipelines[0].Lag == 0
	})
	b.halt()
	b.wantIDs("p", [2]int{1, 100})
	if windows, _ := b.ids("p", "later"); len(windows) != 10 {
		t.Errorf("upstream holds %d windows when the agent has stopped, want 10: the last checkpoint's results wait", len(windows))
	}
	b.start()
	s := b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" && s.Pipelines[0].Sources != nil })
	if p := s.Pipelines[0]; p.Sources[0].Received != 100 || p.Checkpoint.Position < 100 {
		t.Errorf("after a graceful stop: received %d, checkpoint at %d; want 100 and no replay", p.Sources[0].Received, p.Checkpoint.Position)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 100})
}

// TestFailureLeavesTheOthersAlone: one pipeline fails for good, the other delivers everything.
func TestFailureLeavesTheOthersAlone(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log")+pipelineNamed("q", "bbolt"))
	b.start()
	b.put(1, 100)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[1].Position >= 100 })
	b.halt()
	b.text = strings.Replace(b.text, "select: [id, k]", "select: [k, id]", 1) // another plan: p is refused
	b.start()
	b.put(101, 300)
	s := b.await("q goes on", func(s *api.Status) bool {
		return s.Pipelines[0].State == "failed" && settled(&api.Status{Pipelines: s.Pipelines[1:]}) && s.Pipelines[1].Position >= 300
	})
	var metrics bytes.Buffer
	b.agent.WriteMetrics(&metrics)
	if bad := `weir_pipeline_ledger_balanced{pipeline="p"} 0`; strings.Contains(metrics.String(), bad) {
		t.Errorf("a refused pipeline raises the alarm of one that lost something: %s", bad)
	}
	if !strings.Contains(s.Pipelines[0].Error, "plan differs") || !strings.Contains(s.Pipelines[0].Error, `step "all" has «`) || b.agent.Ready() != nil || b.agent.Health() != nil {
		t.Errorf("%q, ready %v, health %v", s.Pipelines[0].Error, b.agent.Ready(), b.agent.Health())
	}
	b.halt()
	b.wantIDs("q", [2]int{1, 300})
}
