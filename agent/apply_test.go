package agent

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/apply"
)

const shortProbation = "apply: {probation: 200ms}\npipelines:"

// newApplyBench is a bench whose pipelines are p, and q that never changes.
func newApplyBench(t *testing.T) *bench {
	b := newBench(t, pipelineNamed("p", "log")+pipelineNamed("q", "log"))
	b.text = strings.Replace(b.text, "pipelines:", shortProbation, 1)
	b.file = filepath.Join(b.dir, "weir.yaml")
	return b
}

// apply asks for a config; the bench's own text is it from then on where it came into force.
func (b *bench) apply(text string, o api.ApplyOptions) (*api.ApplyOutcome, []api.ApplyEvent) {
	b.t.Helper()
	var events []api.ApplyEvent
	o.File, o.Text = b.file, []byte(text)
	out := b.agent.Apply(b.t.Context(), o, func(e api.ApplyEvent) error {
		events = append(events, e)
		return nil
	})
	if out == nil {
		b.t.Fatal("no outcome")
	}
	return out, events
}

func (b *bench) wantApplied(text string) {
	b.t.Helper()
	if out, _ := b.apply(text, api.ApplyOptions{}); out.Result != api.ApplyCommitted {
		b.t.Fatalf("%+v", out)
	}
	b.text = text
}

// withEvens adds a step and a sink to p.
func withEvens(text, url string) string {
	text = strings.Replace(text, "{uid: all, from: s, select: [id, k]}", "{uid: even, from: s, filter: \"id % 2 == 0\"}\n      - {uid: all, from: s, select: [id, k]}", 1)
	return strings.Replace(text, "    sinks:", "    sinks:\n      - {uid: evens, from: even, http: {url: \""+url+"\"}}", 1)
}

// TestApply: the changed pipeline goes on with its state and its sequences, the other one without a stop; upstream holds each result once.
func TestApply(t *testing.T) {
	b := newApplyBench(t)
	b.start()
	b.put(1, 95)
	b.await("delivery", at(95))
	other := b.agent.named("q").running()
	out, events := b.apply(withEvens(b.text, b.url), api.ApplyOptions{DryRun: true})
	if out.Result != api.ApplyChanges || fmt.Sprint(kinds(events)) != "map[p:changed q:unchanged]" {
		t.Errorf("%+v %+v", out, events)
	}
	wider := strings.Replace(b.text, "    sinks:", "    parallelism: 3\n    sinks:", 1)
	if _, events = b.apply(wider, api.ApplyOptions{DryRun: true}); !slices.ContainsFunc(events, func(e api.ApplyEvent) bool {
		return e.Pipeline == "p" && strings.HasPrefix(e.Doing, "parallelism 1 becomes 3")
	}) {
		t.Errorf("another parallelism is not told: %+v", events)
	}
	b.wantApplied(withEvens(b.text, b.url))
	b.put(96, 129)
	b.await("delivery", at(129))
	if b.agent.named("q").running() != other {
		t.Error("a pipeline that did not change was stopped")
	}
	if out, _ := b.apply(b.text, api.ApplyOptions{}); out.Result != api.ApplyUnchanged {
		t.Errorf("again: %+v", out)
	}
	b.halt()
	b.start() // the bench's text is the new one
	b.put(130, 149)
	b.await("delivery", at(149))
	b.halt()
	b.wantIDs("p", [2]int{1, 149})
	b.wantIDs("q", [2]int{1, 149})
	b.wantCounts(14)
	if ids, _ := b.ids("p", "evens"); len(ids) == 0 || ids[0] != 96 {
		t.Errorf("the new sink holds %v, want 96 and on", ids)
	}
}

func kinds(events []api.ApplyEvent) map[string]string {
	m := map[string]string{}
	for _, e := range events {
		if e.Change != "" {
			m[e.Pipeline] = e.Change
		}
	}
	return m
}

// TestApplyGoesBack: the new plan fails within its probation. Nothing that it made is upstream, the old plan makes it; the config is refused from then on, until
// it changes or is asked for again.
func TestApplyGoesBack(t *testing.T) {
	b := newApplyBench(t)
	b.text = strings.Replace(b.text, "probation: 200ms", "probation: 1h", 1)
	b.start()
	b.put(1, 95)
	b.await("delivery", at(95))
	old := b.text
	bad := strings.Replace(b.text, "{uid: all, from: s, select: [id, k]}", "{uid: all, from: s, select: {id: id + 1000, k: k}}", 1)
	bad = strings.Replace(bad, "    sinks:", "    sinks:\n      - {uid: more, from: all, http: {url: \"http://127.0.0.1:1\"}}", 1) // nobody is there
	done := make(chan *api.ApplyOutcome, 1)
	go func() {
		out, _ := b.apply(bad, api.ApplyOptions{})
		done <- out
	}()
	b.await("probation", func(s *api.Status) bool {
		return s.Apply != nil && s.Apply.State == string(apply.Probation) && s.Pipelines[0].State == "running"
	})
	b.put(96, 120)
	b.await("the new plan works", func(s *api.Status) bool {
		return s.Pipelines[0].Position >= 120 && s.Pipelines[0].Checkpoint.Position >= 120
	})
	if ids, _ := b.ids("p", "now"); len(ids) != 95 {
		t.Errorf("upstream holds %d results while the plan is on probation", len(ids))
	}
	if out := b.agent.Apply(t.Context(), api.ApplyOptions{File: b.file, Text: []byte(old)}, func(api.ApplyEvent) error { return nil }); out.Result != api.ApplyRefused || !strings.Contains(out.Error, "another apply") {
		t.Errorf("a second apply: %+v", out)
	}
	if err := b.agent.named("p").ask(t.Context(), command{fail: errors.New("planted")}); err != nil {
		t.Fatal(err)
	}
	out := <-done
	if out.Result != api.ApplyGoneBack || !strings.Contains(out.Error, "planted") {
		t.Fatalf("%+v", out)
	}
	b.put(121, 140)
	b.await("delivery", at(140))
	if out, _ := b.apply(bad, api.ApplyOptions{}); out.Result != api.ApplyRefused || !strings.Contains(out.Error, "--again") {
		t.Errorf("%+v", out)
	}
	b.halt()
	b.text = bad // the operator's file is the one that failed
	b.start()
	b.put(141, 150)
	b.await("delivery", at(150))
	b.halt()
	b.wantIDs("p", [2]int{1, 150})
	b.wantIDs("q", [2]int{1, 150})
	b.wantCounts(15)
}

// TestApplyRefusesBeforeItTouches: what would lose state, what needs a restart, what is wrong.
func TestApplyRefusesBeforeItTouches(t *testing.T) {
	b := newApplyBench(t)
	b.start()
	b.put(1, 95)
	b.await("delivery", at(95))
	before := b.agent.named("p").running()
	for text, want := range map[string][2]string{
		strings.Replace(b.text, "tumbling: 10ms", "tumbling: 20ms", 1):               {api.ApplyLosesState, "step w"},
		strings.Replace(b.text, "max_bytes: 8MiB", "max_bytes: 9MiB", 1):             {api.ApplyRefused, "journal changed: needs a restart"},
		strings.Replace(b.text, "gateway: test", "gateway: other", 1):                {api.ApplyRefused, "gateway changed"},
		strings.Replace(b.text, `topic: "t/{k}"`, `topic: "u/{k}"`, 1):               {api.ApplyRefused, "source s has another topic"},
		strings.Replace(b.text, "start: earliest", "start: earlier", 1):              {api.ApplyRefused, "earliest"},
		strings.Replace(b.text, "delay: 10ms}", "delay: 10ms, failover: region}", 1): {api.ApplyRefused, "restart.failover"},
	} {
		out, _ := b.apply(text, api.ApplyOptions{})
		if out.Result != want[0] || !strings.Contains(out.Error, want[1]) {
			t.Errorf("%+v, want %v", out, want)
		}
	}
	if b.agent.named("p").running() != before {
		t.Error("the pipeline was stopped")
	}
	changed := strings.Replace(b.text, "tumbling: 10ms", "tumbling: 20ms", 1)
	if out, _ := b.apply(changed, api.ApplyOptions{AllowDroppedState: true}); out.Result != api.ApplyCommitted {
		t.Errorf("%+v", out)
	}
	b.text = changed
	b.put(96, 140)
	b.await("delivery", at(140))
	b.halt()
	b.wantIDs("p", [2]int{1, 140})
}

// TestADryRunTellsWhatARemovedPipelineLeaves: a pipeline whose name was changed is removed, and begins empty: its state and results are named before.
func TestADryRunTellsWhatARemovedPipelineLeaves(t *testing.T) {
	b := newApplyBench(t)
	off := b.away()
	b.start()
	b.put(1, 55)
	b.await("delivery", at(55))
	off.Store(true)
	b.put(56, 65)
	b.await("rows wait", func(s *api.Status) bool {
		return s.Pipelines[1].Checkpoint.Position >= 65 && s.Pipelines[1].Sinks[0].Pending > 0
	})
	out, events := b.apply(strings.Replace(b.text, "  q:", "  other:", 1), api.ApplyOptions{DryRun: true})
	told := fmt.Sprintf("%+v", events)
	if out.Result != api.ApplyChanges || !strings.Contains(told, "entries of state and ") || !strings.Contains(told, "weir savepoint create q") || strings.Contains(told, "its 0 entries") || strings.Contains(told, " 0 undelivered") {
		t.Errorf("%+v: %s", out, told)
	}
	off.Store(false)
	b.halt()
}

// TestApplyAddsAndRemovesPipelines: one goes, another comes; what is gone back from leaves both as they were.
func TestApplyAddsAndRemovesPipelines(t *testing.T) {
	b := newApplyBench(t)
	b.start()
	b.put(1, 50)
	b.await("delivery", at(50))
	r := strings.ReplaceAll(pipelineNamed("r", "bbolt"), "URL", b.url)
	q := strings.ReplaceAll(pipelineNamed("q", "log"), "URL", b.url)
	dead := httptest.NewServer(http.NotFoundHandler())
	dead.Close()
	id := b.agent.registry.UUID("q")
	b.agent.applier.sinkWait = 0 // a sink that does not answer within the probation fails it
	out, _ := b.apply(strings.Replace(b.text, q, strings.ReplaceAll(r, b.url, dead.URL), 1), api.ApplyOptions{})
	if out.Result != api.ApplyGoneBack || !strings.Contains(out.Error, "has not answered") {
		t.Fatalf("%+v", out)
	}
	b.put(51, 70)
	b.await("delivery", at(70))
	if b.agent.registry.UUID("q") != id || b.agent.registry.UUID("r") != "" {
		t.Error("the registry is not what it was")
	}
	b.agent.applier.sinkWait = gateWait
	b.wantIDs("q", [2]int{1, 70})
	b.wantApplied(strings.Replace(b.text, q, r, 1))
	b.put(71, 90)
	b.await("delivery", at(90))
	if b.agent.registry.UUID("q") != "" {
		t.Error("the pipeline that went is registered still")
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 90})
	b.wantIDs("r", [2]int{1, 90})
}

// TestRestartWithinProbationGoesOn: the config that is on probation runs, held; the third restart gives it up.
func TestRestartWithinProbationGoesOn(t *testing.T) {
	for _, starts := range []int{1, apply.RestartsInProbation} {
		b := newApplyBench(t)
		b.start()
		b.put(1, 95)
		b.await("delivery", at(95))
		file := b.text
		next := strings.Replace(withEvens(b.text, b.url), "probation: 200ms", "probation: 1h", 1)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			b.agent.Apply(t.Context(), api.ApplyOptions{File: b.file, Text: []byte(next)}, func(api.ApplyEvent) error { return nil })
		}()
		var seen atomic.Bool // the probation
		onProbation := func(s *api.Status) bool {
			return s.Apply != nil && s.Apply.State == string(apply.Probation) && s.Pipelines[0].State == "running"
		}
		b.await("probation", onProbation)
		b.put(96, 100)
		for n := range starts {
			b.await("the new plan works", func(s *api.Status) bool { return s.Pipelines[0].Position >= uint64(100+n) })
			b.stop()
			if err := <-b.done; err != nil {
				t.Fatal(err)
			}
			<-ended
			b.text = file // the operator's file is as it was
			b.startWith(func(a *Agent) {
				if starts == 1 {
					a.applier.over = seen.Load
				}
			})
			b.put(101+n, 101+n)
			if n == 0 {
				b.await("probation again", onProbation)
			}
		}
		if starts > 1 {
			b.await("it is gone back from", func(s *api.Status) bool { return s.Apply.State == string(apply.RolledBack) })
		}
		if ids, _ := b.ids("p", "evens"); len(ids) != 0 {
			t.Errorf("%v left while it was on probation", ids)
		}
		if starts == 1 {
			seen.Store(true)
			b.await("the new one is in force", func(s *api.Status) bool { return s.Apply.State == string(apply.Committed) })
		}
		b.put(110, 130)
		b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Lag == 0 })
		b.halt()
		b.start()
		b.await("in force", settled)
		b.halt()
		want := [][2]int{{1, 100 + starts}, {110, 130}}
		b.wantIDs("p", want...)
		if ids, _ := b.ids("p", "evens"); (len(ids) > 0) != (starts == 1) {
			t.Errorf("%d starts: the new sink holds %v", starts, ids)
		}
	}
}
