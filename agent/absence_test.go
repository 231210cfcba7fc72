package agent

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/wire"
)

const absencePipeline = `
  p:
    start: earliest
    checkpoint: {interval: 50ms}
    steps:
      - {uid: silent, from: s, by: [k], absence: {after: 200ms}}
    sinks:
      - {uid: now, from: silent, commit: immediate, http: {url: "URL"}}
`

// TestAbsenceOnAnIdlePipeline: nothing arrives any more, and yet the silence is told: the agent journals a tick for it. It is told once, over a
// restart too, and so is the return.
func TestAbsenceOnAnIdlePipeline(t *testing.T) {
	b := newBench(t, absencePipeline)
	b.start()
	b.await("the pipeline runs", settled)
	b.put(1, 1)
	b.awaitTransitions("missing")
	b.await("all is saved", settled)
	b.halt()
	b.start()
	b.await("the pipeline runs again", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	b.put(2, 2)
	b.awaitTransitions("missing back missing")
	b.halt()
}

// awaitTransitions waits until the upstream holds these and no others.
func (b *bench) awaitTransitions(want string) {
	b.t.Helper()
	got := ""
	b.await("transitions "+want, func(*api.Status) bool {
		got = b.transitions()
		return got == want
	})
	if got != want {
		b.t.Errorf("transitions %s, want %s", got, want)
	}
}

func (b *bench) transitions() string {
	b.t.Helper()
	id, err := statedir.ParseUUID(b.agent.registry.UUID("p"))
	if err != nil {
		b.t.Fatal(err)
	}
	var all []string
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: "now"}, func(_ uint64, l wire.Line) error {
		var row struct{ K, Transition string }
		err := json.Unmarshal(l.Data, &row)
		all = append(all, row.Transition)
		return err
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.Join(all, " ")
}
