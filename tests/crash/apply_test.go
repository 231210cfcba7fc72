package crash

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// applied: as saved, with a journal that is trimmed again and again, and a short probation.
const applied = `
apply: {probation: 400ms}
journal: {segment: 256KiB, compress: false}
`

// spoiled is a plan whose rows are wrong, and which fails at the end of its probation: nobody is behind its new sink.
func spoiled(config string, n int) string {
	c := strings.Replace(config, "select: [id, k, ts, v]", "select: {id: id + 1, k: k, ts: ts, v: v}", 1)
	return strings.Replace(c, "    sinks:\n", "    sinks:\n      - {uid: nobody, from: all, http: {url: \"http://127.0.0.1:1\"}}\n", 1) + fmt.Sprintf("# %d\n", n)
}

// changer applies configs while messages flow.
type changer struct {
	*stage
	current, tried  string
	before          uint64 // number of the apply before
	under           *exec.Cmd
	out             *strings.Builder
	asked, changed  int
	committed, back int
}

// ask begins an apply; every other one is of a plan that fails.
func (c *changer) ask() {
	c.end()
	c.asked++
	if c.tried = changes[c.changed%len(changes)](c.current); c.asked%2 == 0 {
		c.tried = spoiled(c.current, c.asked)
	}
	file := filepath.Join(c.dir, "new.yaml")
	c.must(os.WriteFile(file, []byte(c.tried), 0o644))
	if p := c.applyStatus(); p != nil {
		c.before = p.Number
	}
	c.out = &strings.Builder{}
	c.under = exec.Command(binary, "apply", file, "--again", "-c", filepath.Join(c.dir, "weir.yaml"))
	c.under.Stdout, c.under.Stderr = c.out, c.out
	c.must(c.under.Start())
}

// takenUp waits until the agent has the apply that was asked for: on a busy machine the command is slower than the next kill.
func (c *changer) takenUp() {
	c.t.Helper()
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if p := c.applyStatus(); p != nil && p.Number != c.before {
			return
		}
	}
	c.dump()
	c.t.Fatalf("the agent did not take up %s", c.tried)
}

// end waits for the apply under way, over whatever kills come. A command that a kill has cut short says nothing: the agent knows.
func (c *changer) end() {
	c.t.Helper()
	if c.under == nil {
		return
	}
	c.under.Wait() //nolint:errcheck // the status is asked below
	c.under = nil
	p := c.resting()
	switch {
	case p == nil || p.Number == c.before: // a kill came before it was taken up
	case p.State == "committed":
		if strings.Contains(c.tried, "nobody") {
			c.t.Errorf("a plan that fails is in force: %s", c.out)
		}
		c.current, c.committed, c.changed = c.tried, c.committed+1, c.changed+1
	default:
		c.back++
	}
}

func (c *changer) applyStatus() *api.ApplyStatus {
	out, err := exec.Command(binary, "status", "-o", "json", "-c", filepath.Join(c.dir, "weir.yaml")).Output()
	var s api.Status
	if err != nil || json.Unmarshal(out, &s) != nil {
		return nil
	}
	return s.Apply
}

// resting waits until no apply is under way and the pipeline runs.
func (c *changer) resting() *api.ApplyStatus {
	c.t.Helper()
	s := c.awaitStatus("no apply is under way", func(s *api.Status) bool {
		return (s.Apply == nil || s.Apply.State == "committed" || s.Apply.State == "rolled back") && len(s.Pipelines) == 1 && s.Pipelines[0].State == "running"
	})
	return s.Apply
}

func applying(asks int) (*scenario, *changer) {
	c := &changer{}
	s := &scenario{qos: 1, messages: 9_000, rate: 1000, kills: 5, receiverRestarts: 1, streams: savedStreams, patience: rig.Patience,
		config: applied + strings.Replace(saved, "PARALLEL", "2", 1), env: []string{"WEIR_SINK_WAIT=2s"}} // a new sink of a good plan answers in that, mostly
	s.more = func(st *stage, add func(n int, do func())) {
		c.stage, c.current = st, st.config
		add(asks, func() {
			if c.asked%3 == 2 { // may be killed before anybody has heard of it
				c.ask()
				return
			}
			c.end()
			c.resting()
			c.ask()
			c.takenUp()
		})
	}
	s.beforeFinish = func(*stage) { c.end() }
	return s, c
}

// TestApply: configs are applied while messages flow, good ones and such as fail within their probation; the agent is killed within.
func TestApply(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s, c := applying(6)
	if long() {
		s, c = applying(60)
		s.messages, s.kills, s.receiverRestarts = 90_000, 50, 5
	}
	least := 1
	if long() { // each change more than once
		least = 2 * len(changes)
	}
	s.exact(t)
	if t.Logf("%d asked for, %d in force, %d gone back from", c.asked, c.committed, c.back); c.committed < least || c.back < least {
		t.Error("too little came of it")
	}
}

// TestApplyFaults: results that leave within a probation, and a journal that does not hold the savepoint, must be found.
func TestApplyFaults(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	for _, fault := range []string{"apply-live", "apply-unheld"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			for n := range faultRuns {
				s, c := applying(2)
				s.messages, s.kills, s.receiverRestarts, s.patience = 4_000, 0, 0, 20*time.Second
				s.env = append(s.env, "WEIR_FAULT="+fault)
				if fault == "apply-unheld" { // segments must be left behind within a probation
					s.messages, s.rate = 30_000, 6_000
					s.config = strings.NewReplacer("400ms", "2s", "interval: 200ms", "interval: 100ms, retained: 1").Replace(s.config)
				}
				s.beforeFinish = func(*stage) { c.under.Wait() } //nolint:errcheck // the oracle tells
				verdicts, problems := s.run(t)
				found := len(problems) > 0
				for _, v := range verdicts {
					found = found || !v.OK()
				}
				if found {
					t.Logf("found in run %d", n+1)
					return
				}
			}
			t.Errorf("the planted fault was not found in %d runs", faultRuns)
		})
	}
}

// applySteps are where the agent is killed: before and behind each durable step (agent/applier.go). The later ones come with a plan that fails.
var applySteps = []string{"asked", "saved", "switched", "passed", "failed", "dropped", "restored"}

// TestApplyKilledAtEveryStep: each apply ends committed or gone back, and the results are exact.
func TestApplyKilledAtEveryStep(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s, c := applying(0)
	s.config = strings.Replace(s.config, "400ms", "1s", 1) // a checkpoint is made within, on a busy machine too
	st := newStage(t, s, rand.New(rand.NewPCG(1, 1)))
	c.stage, c.current = st, st.config
	n := 0
	publish := func() {
		for end := n + 60; n < end; n++ {
			payload, _ := json.Marshal(messageOf(n))
			st.publish(topicOf(n), payload)
		}
	}
	for i, step := range applySteps {
		for _, side := range []string{"before", "after"} {
			st.agent.Kill()
			before := len(st.env)
			if i < 4 { // a good plan does not fail because the machine is slow, neither now nor behind the kill
				st.env = append(st.env, "WEIR_SINK_WAIT=1m")
			}
			env := len(st.env)
			st.env = append(st.env, "WEIR_DIE_AT=apply-"+side+"-"+step)
			st.startAgent()
			c.resting()
			publish()
			if c.asked = 2; i < 4 { // ask makes it odd: a good one
				c.asked = 0
			} else {
				c.asked = 1 + 2*n
			}
			c.ask()
			publish()
			select {
			case <-st.agent.Done():
			case <-time.After(rig.Patience):
				st.dump()
				t.Fatalf("the agent was not killed %s %s", side, step)
			}
			st.env = st.env[:env]
			st.startAgent()
			c.end()
			st.env = st.env[:before]
		}
	}
	if c.committed == 0 || c.back == 0 {
		t.Errorf("%d in force, %d gone back from", c.committed, c.back)
	}
	s.messages = n
	s.rate, s.more = 1000, nil
	st.publishFlush(n)
	verdicts, problems := st.finish(s)
	wantExact(t, verdicts, problems)
}
