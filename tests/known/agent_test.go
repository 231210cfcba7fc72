package known

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// patience bounds every wait.
const patience = rig.Patience

// TestAgentWithKills takes nab-traffic the whole way: mosquitto, an agent that is killed with SIGKILL, checkpoints, file sinks. What the files
// hold in the end are the same answers.
func TestAgentWithKills(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel() // it waits most of the time
	const set, kills = "nab-traffic", 6
	w := newWorld(t, set)
	publisher := rig.NewPublisher(rig.PublisherConfig{Addr: w.broker.Addr, ClientID: "publisher", QoS: 1})
	defer publisher.Close()
	deliveries := arrivals(t, set)
	for i, d := range deliveries {
		w.must(publisher.Publish(t.Context(), d.Topic, false, []byte(d.Payload)))
		if (i+1)%(len(deliveries)/(kills+1)) == 0 {
			time.Sleep(300 * time.Millisecond) // let it work on what it has: a kill in the middle of nothing shows nothing
			w.agent.Kill()
			w.start()
		}
	}
	w.must(publisher.Publish(t.Context(), "road/flush/x", false, // a live stream has no end: this closes the windows
		[]byte(`{"sensor":"flush","metric":"x","seq":0,"ts":1577836800000,"v":0}`)))
	w.must(publisher.Flush(t.Context()))
	w.settle(len(deliveries) + 1)
	w.must(rig.CheckLedgerAt(t.Context(), w.socket(), patience))
	w.must(w.agent.Stop(patience))
	for _, a := range answers {
		if a.set != set {
			continue
		}
		t.Run(a.file, func(t *testing.T) {
			var got []row
			for _, r := range records(t, w.sink(a)) {
				if r["key"] != "flush/x" {
					got = append(got, r)
				}
			}
			if problem := compare(a, got, expected(t, a)); problem != "" {
				t.Error(problem)
			}
		})
	}
}

type delivery struct{ Topic, Payload string }

func arrivals(t *testing.T, set string) []delivery {
	t.Helper()
	return rig.JSONLines[delivery](t, filepath.Join(sets, set, "arrivals.jsonl"))
}

// world is a broker and an agent with the config of a set.
type world struct {
	t      *testing.T
	dir    string
	broker *rig.Mosquitto
	agent  *rig.Child
}

func newWorld(t *testing.T, set string) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-known-") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := &world{t: t, dir: dir}
	w.must(os.Mkdir(filepath.Join(dir, "broker"), 0o755))
	w.broker, err = rig.StartMosquitto(filepath.Join(dir, "broker"), "")
	w.must(err)
	t.Cleanup(w.broker.Kill)
	text, err := os.ReadFile(filepath.Join(configs, set+".yaml"))
	w.must(err)
	config := strings.NewReplacer(
		"127.0.0.1:1883", w.broker.Addr,
		"state_dir: /var/lib/weir", fmt.Sprintf("state_dir: %s/state\nsecurity: {file_root: %s/files}\napi: {socket: %s}", dir, dir, w.socket()),
		"start: earliest", "start: earliest\n    checkpoint: {interval: 200ms}",
	).Replace(string(text))
	w.must(os.WriteFile(filepath.Join(dir, "weir.yaml"), []byte(config), 0o644))
	w.start()
	t.Cleanup(func() { w.agent.Kill() })
	w.eventually("the agent has subscribed", func(s api.Status) bool { return ready(s) })
	return w
}

func (w *world) socket() string { return filepath.Join(w.dir, "s") }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) start() {
	child, err := rig.StartChild(filepath.Join(w.dir, "agent.log"), nil, weir, "run", "-c", filepath.Join(w.dir, "weir.yaml"))
	w.must(err)
	w.agent = child
}

func (w *world) eventually(what string, done func(api.Status) bool) {
	w.t.Helper()
	_, err := rig.AwaitStatus(w.t.Context(), w.socket(), w.agent, patience, what, func(s *api.Status) bool { return done(*s) })
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(w.dir, "agent.log"))
		w.t.Fatalf("%v\n%s", err, log[max(0, len(log)-4000):])
	}
}

func ready(s api.Status) bool {
	for _, b := range s.Sessions {
		if b.State != "ready" {
			return false
		}
	}
	return len(s.Sessions) > 0
}

// settle waits until every window that the flush closes has left: so many messages have arrived, the journal no longer grows and no sink has
// anything pending.
func (w *world) settle(messages int) {
	last, since := uint64(0), time.Now()
	w.eventually("everything is delivered", func(s api.Status) bool {
		busy := !ready(s) || s.Journal.Last != last
		for _, p := range s.Pipelines {
			busy = busy || p.State != "running" || p.Lag > 0 || received(p) < uint64(messages)
			for _, k := range p.Sinks {
				busy = busy || k.Pending > 0
			}
		}
		if last = s.Journal.Last; busy {
			since = time.Now()
		}
		return time.Since(since) > 1500*time.Millisecond
	})
}

// received counts the messages of all sources of a pipeline.
func received(p api.PipelineStatus) (n uint64) {
	for _, s := range p.Sources {
		n += s.Received
	}
	return n
}

// sink reads the rows of a file sink: a sequence without a hole, from 1.
func (w *world) sink(a answer) (rows []byte) {
	w.t.Helper()
	all, err := rig.FileRows(filepath.Join(w.dir, "files", w.path(a)), 1)
	w.must(err)
	for _, r := range all {
		rows = append(append(rows, r...), '\n')
	}
	return rows
}

// path is where a sink of the config writes: the sets' configs name files after their sinks, with an l in the pipeline of late answers.
func (w *world) path(a answer) string {
	if name, is := strings.CutPrefix(a.sink, "s-"); is && a.pipeline == "late" {
		return "l-" + name + ".jsonl"
	}
	return a.sink + ".jsonl"
}
