package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// refusing sends its dead letters on, too.
const refusing = `
pipelines:
  pass:
    start: earliest
    checkpoint: {interval: 100ms}
    dead_letters: {sink: pass-a}
    sinks:
      - {uid: pass-a, from: a, http: {url: "URL"}}
`

// requeueSteps are where a requeue is killed: agent/requeue.go.
var requeueSteps = []string{"requeue-begun", "requeue-appended", "requeue-synced", "requeue-ended"}

// TestRequeueKilled: a requeue is killed between any two of its steps, in the agent and on the files of a stopped one, and asked for again. Each message
// passes the pipeline once more, and no letter is lost.
func TestRequeueKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	const letters = 6
	s := scenario{qos: 1, config: refusing, streams: 1}
	st := newStage(t, &s, rand.New(rand.NewPCG(1, 1)))
	for i := range letters {
		st.publish("t/a/x", fmt.Appendf(nil, `{"id":"bad %d"}`, i))
	}
	want := uint64(letters)
	st.awaitLetters(want, 0)
	for _, live := range []bool{true, false} {
		for _, step := range requeueSteps {
			args := append([]string{"requeue", "pass"}, st.letters()...)
			if !live {
				st.must(st.agent.Stop(rig.Patience))
				st.deadletter([]string{"WEIR_DIE_AT=" + step}, args...)
				st.deadletter(nil, args...)
				st.startAgent()
			} else {
				st.agent.Kill()
				st.env = append(st.env, "WEIR_DIE_AT="+step)
				st.startAgent()
				st.awaitLetters(want, want-letters)
				st.deadletter(nil, args...)
				select {
				case <-st.agent.Done():
				case <-time.After(rig.Patience):
					t.Fatalf("the agent was not killed at %s", step)
				}
				st.env = st.env[:len(st.env)-1]
				st.startAgent()
				st.awaitLetters(0, 0)
				st.deadletter(nil, args...)
			}
			want += letters
			st.awaitLetters(want, want-letters)
			if t.Failed() {
				st.dump()
				t.Fatalf("killed at %s, live %v", step, live)
			}
		}
	}
	st.must(st.agent.Stop(rig.Patience))
}

// deadletter runs the command; that it fails is no matter: it may be killed, or its agent.
func (st *stage) deadletter(env []string, args ...string) []byte {
	cmd := exec.Command(binary, append([]string{"deadletter", "-c", filepath.Join(st.dir, "weir.yaml")}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	out, _ := cmd.Output()
	return out
}

func (st *stage) letters() (seqs []string) {
	d := json.NewDecoder(bytes.NewReader(st.deadletter(nil, "ls", "pass", "-o", "json")))
	for {
		var l api.DeadLetter
		if d.Decode(&l) != nil {
			return seqs
		}
		seqs = append(seqs, fmt.Sprint(l.Seq))
	}
}

// awaitLetters waits until so many letters were ever kept and requeued, and nothing is under way: each message that was refused was received, and upstream holds each
// letter. kept 0: until the pipeline runs.
func (st *stage) awaitLetters(kept, requeued uint64) {
	st.t.Helper()
	client := api.Dial(filepath.Join(st.dir, "state", "weir.sock"))
	var last api.Status
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		s, err := client.Status(context.Background())
		if err != nil || len(s.Pipelines) == 0 || s.Pipelines[0].Dead == nil || len(s.Pipelines[0].Sources) == 0 {
			continue
		}
		last = s
		p := &s.Pipelines[0]
		if kept == 0 && p.State == "running" {
			return
		}
		d := p.Dead
		if p.Lag == 0 && d.Kept == kept && d.Requeued == requeued && d.Held == kept-requeued && p.Sources[0].Received == kept && d.Sink.Pending == 0 && p.Balanced {
			return
		}
		if d.Kept > kept && kept > 0 {
			st.t.Errorf("%+v, want %d kept: a message was put in twice", d, kept)
			return
		}
	}
	text, _ := json.Marshal(last.Pipelines)
	st.t.Errorf("%d letters, of them %d requeued, did not come: %s", kept, requeued, text)
}
