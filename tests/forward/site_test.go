package forward

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

var weir string // the program under test, built by TestMain

func TestMain(m *testing.M) {
	if os.Getenv("WEIR_WEEK") != "" { // only the week is asked for, which needs no process
		os.Exit(m.Run())
	}
	os.Exit(rig.RunWithWeir(m, &weir))
}

// patience bounds every wait.
const patience = rig.Patience

// site is a mosquitto, an agent as a child process, and a receiver.
type site struct {
	t         *testing.T
	dir       string
	broker    *rig.Mosquitto
	agent     *rig.Child
	receiver  *receiver.Receiver
	server    *httptest.Server
	refusing  atomic.Bool  // every request is answered with 503
	slow      atomic.Int64 // each request takes so long, ns
	config    string
	published int
	publisher *rig.Publisher
}

// newSite starts broker and receiver; body is the config behind the broker. PATH in a URL may be dead/, slow/ or fast/: dead is refused
// while refusing, slow takes its time.
func newSite(t *testing.T, mosquitto, body string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	dir, err := os.MkdirTemp("", "weir-fwd-") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir}
	t.Cleanup(func() {
		if s.agent != nil {
			s.agent.Kill()
		}
		if t.Failed() {
			b, _ := os.ReadFile(filepath.Join(dir, "agent.log"))
			t.Logf("agent's log:\n%s", b[max(0, len(b)-6000):])
		}
		os.RemoveAll(dir)
	})
	s.must(os.Mkdir(filepath.Join(dir, "broker"), 0o755))
	s.broker, err = rig.StartMosquitto(filepath.Join(dir, "broker"), mosquitto)
	if errors.Is(err, rig.ErrNoMosquitto) {
		t.Skip(err)
	}
	s.must(err)
	t.Cleanup(func() { s.broker.Stop() })
	s.receiver, err = receiver.Open(receiver.Options{Path: filepath.Join(dir, "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	t.Cleanup(func() { s.receiver.Close() })
	s.server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(s.server.Close)
	s.config = filepath.Join(dir, "weir.yaml")
	s.must(os.WriteFile(s.config, []byte(strings.NewReplacer("DIR", dir, "BROKER", s.broker.Addr, "URL", s.server.URL).Replace(head+body)), 0o644))
	s.publisher = rig.NewPublisher(rig.PublisherConfig{Addr: s.broker.Addr, ClientID: "source", QoS: 1})
	t.Cleanup(s.publisher.Close)
	return s
}

const head = `
gateway: forward
state_dir: DIR/state
security: {allow_private: true, file_root: DIR/files}
api: {socket: DIR/s}
brokers:
  local: {url: "tcp://BROKER", client_id: weir-forward, dropped_topic: $SYS/broker/publish/messages/dropped}
sources:
  m:
    mqtt: {broker: local, topic: "m/{k}", qos: 1}
    decode: json
    fields: {id: int, pad: string}
`

func (s *site) answer(w http.ResponseWriter, r *http.Request) {
	for _, path := range []string{"/dead", "/slow", "/fast"} {
		rest, ok := strings.CutPrefix(r.URL.Path, path)
		if !ok {
			continue
		}
		if path == "/dead" && s.refusing.Load() {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		if path == "/slow" {
			time.Sleep(time.Duration(s.slow.Load()))
		}
		r.URL.Path = rest
	}
	s.receiver.ServeHTTP(w, r)
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) start() {
	s.t.Helper()
	child, err := rig.StartChild(filepath.Join(s.dir, "agent.log"), nil, weir, "run", "-c", s.config)
	s.must(err)
	first := s.agent == nil
	s.agent = child
	s.await("the agent is ready", func(st *api.Status) bool {
		for _, p := range st.Pipelines {
			if p.State != "running" {
				return false
			}
		}
		if len(st.Sessions) == 0 {
			return false
		}
		b := st.Sessions[0]
		if first { // once the broker has the subscription, it keeps what is published
			return b.State == "ready"
		}
		return b.Counters["connects"] > 0 // a full journal may hold it back from more
	})
}

// stop checks the ledger at rest and ends the agent.
func (s *site) stop() {
	s.t.Helper()
	s.must(rig.CheckLedgerAt(s.t.Context(), filepath.Join(s.dir, "s"), patience))
	s.must(s.agent.Stop(patience))
}

// await polls the status until it is as wanted.
func (s *site) await(what string, done func(*api.Status) bool) api.Status {
	s.t.Helper()
	st, err := rig.AwaitStatus(s.t.Context(), filepath.Join(s.dir, "s"), s.agent, patience, what, done)
	s.must(err)
	return st
}

// publish sends n messages with ids that go on, of about size bytes.
func (s *site) publish(n, size int) {
	s.t.Helper()
	pad := strings.Repeat("x", size)
	for range n {
		s.published++
		s.must(s.publisher.Publish(s.t.Context(), "m/k", false, fmt.Appendf(nil, `{"id":%d,"pad":"%s"}`, s.published, pad)))
	}
	s.must(s.publisher.Flush(s.t.Context()))
}

// rows gives what the receiver holds of a sink: the ids in order, and the sequences that are gaps.
func (s *site) rows(sink string) (ids []int, gaps uint64) {
	s.t.Helper()
	names, err := s.receiver.Streams()
	s.must(err)
	for _, name := range names {
		stream, err := wire.ParseStream(name)
		s.must(err)
		if stream.Sink != sink {
			continue
		}
		s.must(s.receiver.Records(stream, func(_ uint64, l wire.Line) error {
			if l.Data == nil {
				gaps += max(l.Last, l.Seq) - l.Seq + 1
				return nil
			}
			var row struct{ ID int }
			if err := json.Unmarshal(l.Data, &row); err != nil {
				return err
			}
			ids = append(ids, row.ID)
			return nil
		}))
	}
	return ids, gaps
}

// exact demands ids 1..n, each once, in order.
func (s *site) exact(sink string) {
	s.t.Helper()
	ids, gaps := s.rows(sink)
	if len(ids) != s.published || gaps != 0 {
		s.t.Errorf("%s: upstream holds %d rows and %d gaps, %d were published", sink, len(ids), gaps, s.published)
		return
	}
	for i, id := range ids {
		if id != i+1 {
			s.t.Errorf("%s: id %d in place of %d", sink, id, i+1)
			return
		}
	}
}

func sinkOf(st *api.Status, uid string) *api.SinkLedger {
	for i := range st.Pipelines {
		for k := range st.Pipelines[i].Sinks {
			if st.Pipelines[i].Sinks[k].UID == uid {
				return &st.Pipelines[i].Sinks[k]
			}
		}
	}
	return &api.SinkLedger{}
}
