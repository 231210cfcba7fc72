package compat

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// patience bounds every wait for the agent; a wait ends as soon as what is waited for is true.
const patience = rig.Patience

const (
	client   = "weir-compat"
	pipeline = "wide"
)

// site is an agent as a child process over the files of an image, with a broker and an upstream.
type site struct {
	t        *testing.T
	weir     string // the program
	dir      string // holds state/ and files/
	broker   *rig.Broker
	upstream *httptest.Server
	receiver *receiver.Receiver
	away     atomic.Bool // the upstream answers nobody
	agent    *rig.Child
}

func newSite(t *testing.T, program string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	dir, err := os.MkdirTemp("", "weir-compat-") // t.TempDir's names are too long for a socket
	s := &site{t: t, weir: program, dir: dir}
	s.must(err)
	t.Cleanup(func() {
		if s.agent != nil {
			s.agent.Kill()
		}
		if t.Failed() {
			b, _ := os.ReadFile(s.path("agent.log"))
			t.Logf("agent's log:\n%s", b[max(0, len(b)-6000):])
		}
		os.RemoveAll(dir)
	})
	s.broker, err = rig.NewBroker(rig.BrokerConfig{})
	s.must(err)
	t.Cleanup(func() { s.broker.Close() })
	s.upstream = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.away.Load() {
			http.Error(w, "away", http.StatusServiceUnavailable)
			return
		}
		s.receiver.ServeHTTP(w, r)
	}))
	t.Cleanup(s.upstream.Close)
	return s
}

// openReceiver opens what the upstream holds, once the image is there.
func (s *site) openReceiver() {
	s.t.Helper()
	r, err := receiver.Open(receiver.Options{Path: s.path(receiverFile), Config: receiver.Default()})
	s.must(err)
	s.receiver = r
	s.t.Cleanup(func() { r.Close() })
}

func (s *site) path(names ...string) string {
	return filepath.Join(append([]string{s.dir}, names...)...)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// configure writes the whole config around the sources and pipelines of an image.
func (s *site) configure() string {
	s.t.Helper()
	body, err := os.ReadFile(s.path(configFile))
	s.must(err)
	head := `gateway: compat
state_dir: ` + s.path("state") + `
security: {allow_private: true, file_root: ` + s.path("files") + `}
api: {socket: ` + s.path("s") + `}
journal: {segment: 1MiB}
brokers:
  local: {url: "tcp://` + s.broker.Addr() + `", client_id: ` + client + `}
`
	file := s.path("run.yaml")
	s.must(os.WriteFile(file, []byte(head+strings.ReplaceAll(string(body), "URL", s.upstream.URL)), 0o644))
	return file
}

// start starts the agent and waits until it has subscribed and the pipeline runs.
func (s *site) start(args ...string) {
	s.t.Helper()
	child, err := rig.StartChild(s.path("agent.log"), nil, s.weir, append([]string{"run", "-c", s.configure()}, args...)...)
	s.must(err)
	s.agent = child
	s.eventually("the agent is ready", func(st *api.Status) bool {
		if p := st.Pipelines[0]; p.State == "failed" {
			s.t.Fatalf("the pipeline failed: %s", p.Error)
		}
		return st.Pipelines[0].State == "running" && st.Sessions[0].State == "ready"
	})
}

func (s *site) eventually(what string, done func(*api.Status) bool) {
	s.t.Helper()
	_, err := rig.AwaitStatus(s.t.Context(), s.path("s"), s.agent, patience, what, func(st *api.Status) bool {
		return len(st.Pipelines) > 0 && len(st.Sessions) > 0 && done(st)
	})
	s.must(err)
}

// send publishes messages and waits until the pipeline has worked them in.
func (s *site) send(all []message) {
	s.t.Helper()
	for _, m := range all {
		s.broker.Publish(m.Topic, 1, false, []byte(m.Payload))
	}
	emptied := false // before the agent was asked: a status may be older than what it acknowledged since
	s.eventually("the messages are worked in", func(st *api.Status) bool {
		before := emptied
		i := s.broker.Session(client)
		emptied = i.Connected && i.Queued+i.InFlight == 0
		return before && emptied && st.Pipelines[0].State == "running" && st.Pipelines[0].Lag == 0
	})
}

// run runs a command of the program.
func (s *site) run(args ...string) string {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), s.weir, append(args, "-c", s.path("run.yaml"))...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("weir %v: %v\n%s%s", args, err, out, &stderr)
	}
	return string(out)
}

// delivered waits until every result is upstream, and ends the run.
func (s *site) delivered() {
	s.t.Helper()
	_, err := api.Dial(s.path("s")).TriggerCheckpoint(s.t.Context(), pipeline)
	s.must(err)
	s.eventually("all results are delivered", func(st *api.Status) bool {
		for _, k := range st.Pipelines[0].Sinks {
			if k.Pending > 0 || k.Error != "" {
				return false
			}
		}
		return true
	})
	s.must(s.agent.Stop(patience))
}

// results gives what came out of the sinks of the config, in the order of their numbers, of one generation or, in order, of several.
func (s *site) results() map[string][]json.RawMessage {
	s.t.Helper()
	var registry struct{ Pipelines map[string]string }
	s.must(readJSON(s.path("state", "pipelines.json"), &registry))
	all := map[string][]json.RawMessage{}
	for _, uid := range s.sinks() {
		all[uid.uid] = []json.RawMessage{}
		if uid.file != "" {
			all[uid.uid] = append(all[uid.uid], s.fileRows(uid.file)...)
			continue
		}
		err := s.receiver.Records(uplink.Stream{Gateway: "compat", Pipeline: strings.ReplaceAll(registry.Pipelines[pipeline], "-", ""), Sink: uid.uid}, func(_ uint64, l wire.Line) error {
			if l.Data != nil {
				all[uid.uid] = append(all[uid.uid], bytes.Clone(l.Data))
			}
			return nil
		})
		s.must(err)
	}
	return all
}

type sinkName struct{ uid, file string }

// sinks reads the names of the sinks from the config, which has one to a line.
func (s *site) sinks() (all []sinkName) {
	s.t.Helper()
	body, err := os.ReadFile(s.path(configFile))
	s.must(err)
	_, body, _ = bytes.Cut(body, []byte("\n    sinks:\n"))
	for l := range strings.Lines(string(body)) {
		_, rest, ok := strings.Cut(l, "{uid: ")
		if !ok {
			continue
		}
		n := sinkName{}
		n.uid, rest, _ = strings.Cut(rest, ",")
		if _, rest, ok = strings.Cut(rest, "file: {path: "); ok {
			n.file, _, _ = strings.Cut(rest, "}")
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		s.t.Fatal("the config has no sinks")
	}
	return all
}

// fileRows reads the rows of a file sink; on another machine the file begins behind what had left before.
func (s *site) fileRows(name string) []json.RawMessage {
	s.t.Helper()
	rows, err := rig.FileRows(s.path("files", name), 0)
	if !errors.Is(err, os.ErrNotExist) {
		s.must(err)
	}
	return rows
}
