package crash

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// forgetting makes no checkpoint while the test runs: a restart makes everything again.
const forgetting = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 1h}
    sinks:
      - {uid: now-a, from: a, commit: immediate, http: {url: "URL"}}
`

// TestDivergenceIsTold: results that a killed agent makes again are compared with what upstream holds. With a step that is not deterministic
// (planted) status, metrics and log name the pipeline, the sink and the sequence; without it nobody says anything.
func TestDivergenceIsTold(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for _, fault := range []string{"", "WEIR_FAULT=not-deterministic"} {
		t.Run(strings.TrimPrefix(fault, "WEIR_FAULT="), func(t *testing.T) {
			const messages = 40
			s := scenario{qos: 1, config: forgetting, streams: 1}
			if fault != "" {
				s.env = []string{fault}
			}
			st := newStage(t, &s, rand.New(rand.NewPCG(2, 2)))
			for i := range messages {
				st.publish("t/a/x", fmt.Appendf(nil, `{"id":%d,"k":"k","ts":%d,"v":1}`, i, baseMs+int64(i)))
			}
			delivered := func(s *api.Status) bool {
				p := &s.Pipelines[0]
				return p.Lag == 0 && len(p.Sinks) > 0 && p.Sinks[0].Emitted == messages && p.Sinks[0].Pending == 0 && p.Sources[0].Received == messages
			}
			st.awaitStatus("delivered", delivered)
			st.agent.Kill()
			st.startAgent()
			found := st.awaitStatus("made again", func(s *api.Status) bool {
				return delivered(s) && (fault == "" || s.Pipelines[0].Sinks[0].Divergences > 0)
			})
			sink := found.Pipelines[0].Sinks[0]
			client := api.Dial(filepath.Join(st.dir, "state", "weir.sock"))
			var metrics bytes.Buffer
			st.must(client.Metrics(context.Background(), &metrics))
			log, err := os.ReadFile(filepath.Join(st.dir, "agent.log"))
			st.must(err)
			lines := regexp.MustCompile(`divergence: .* pipeline=pass sink=now-a seq=\d+ `).FindAll(log, -1)
			told := strings.Contains(strings.Join(found.Problems, "\n"), fmt.Sprintf("pipeline pass, sink now-a: result %d, or one before it, was made again", sink.DivergedAt))
			want := uint64(0)
			if fault != "" {
				want = 1
			}
			counted := strings.Contains(metrics.String(), fmt.Sprintf(`weir_sink_divergences_total{pipeline="pass",sink="now-a"} %d`, want))
			if sink.Divergences != want || (sink.DivergedAt > 0) != (want > 0) || !counted || told != (want > 0) || uint64(len(lines)) != want {
				t.Errorf("%+v, in metrics %v, in problems %v, %d lines in the log, want %d", sink, counted, told, len(lines), want)
			}
			st.must(st.agent.Stop(rig.Patience))
		})
	}
}

// awaitStatus waits until the agent's status is as wanted.
func (st *stage) awaitStatus(what string, done func(s *api.Status) bool) (s api.Status) {
	st.t.Helper()
	client := api.Dial(filepath.Join(st.dir, "state", "weir.sock"))
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if s, err = client.Status(context.Background()); err == nil && len(s.Pipelines) > 0 && s.Pipelines[0].State == "running" && done(&s) {
			return s
		}
	}
	st.dump()
	st.t.Fatalf("in vain waited until %s", what)
	return s
}
