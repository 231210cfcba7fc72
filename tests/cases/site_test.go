package cases

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// client is the MQTT client id of the agent under test.
const client = "weir-cases"

// patience bounds every wait for the agent.
const patience = rig.Patience

// site is an agent as a child process, with a scripted broker.
type site struct {
	t      *testing.T
	dir    string // holds state/ and files/
	body   string // the config's sources and pipelines
	broker *rig.Broker
	addr   string   // of another broker that is used in its place; "": it is
	env    []string // of the agent, besides the test's own
	under  []string // what the agent is started by; it becomes the agent
	agent  *rig.Child
}

// newSite starts a broker; the config is body behind gateway, directories and the broker "local".
func newSite(t *testing.T, body string) *site {
	t.Helper()
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	dir, err := os.MkdirTemp("", "weir-case-") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, dir: dir, body: body}
	s.newBroker()
	t.Cleanup(func() {
		if s.agent != nil {
			s.agent.Kill()
		}
		if t.Failed() {
			t.Logf("agent's log:\n%s", tail(s.log(), 5000))
		}
		os.RemoveAll(dir)
	})
	return s
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// newBroker takes the place of the one before: it knows no session.
func (s *site) newBroker() {
	b, err := rig.NewBroker(rig.BrokerConfig{})
	s.must(err)
	s.broker = b
	s.t.Cleanup(func() { b.Close() })
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) socket() string { return filepath.Join(s.dir, "s") }

// start writes the config and starts the agent.
func (s *site) start(args ...string) {
	s.t.Helper()
	addr := s.addr
	if addr == "" {
		addr = s.broker.Addr()
	}
	config := `gateway: cases
state_dir: ` + s.dir + `/state
security: {allow_private: true, file_root: ` + s.dir + `/files}
api: {socket: ` + s.socket() + `}
brokers:
  local: {url: "tcp://` + addr + `", client_id: ` + client + `}
` + s.body
	file := filepath.Join(s.dir, "weir.yaml")
	s.must(os.WriteFile(file, []byte(config), 0o644))
	command := append(append(append([]string{}, s.under...), weir, "run", "-c", file), args...)
	child, err := rig.StartChild(filepath.Join(s.dir, "agent.log"), s.env, command[0], command[1:]...)
	s.must(err)
	s.agent = child
}

// startReady starts the agent and waits until it has subscribed and every pipeline runs.
func (s *site) startReady() {
	s.t.Helper()
	s.start()
	s.eventually("the agent is ready", func(st api.Status) bool {
		for _, p := range st.Pipelines {
			if p.State != "running" {
				return false
			}
		}
		return len(st.Sessions) > 0 && st.Sessions[0].State == "ready"
	})
}

// ledgerWait bounds the wait for an agent that is to be stopped while it works.
const ledgerWait = 10 * time.Second

// stop ends a run: with the ledger.
func (s *site) stop() {
	s.t.Helper()
	s.must(rig.CheckLedgerAt(s.t.Context(), s.socket(), ledgerWait))
	s.must(s.agent.Stop(patience))
}

func (s *site) log() string {
	b, _ := os.ReadFile(filepath.Join(s.dir, "agent.log"))
	return string(b)
}

// eventually polls the agent's status.
func (s *site) eventually(what string, done func(api.Status) bool) {
	s.t.Helper()
	_, err := rig.AwaitStatus(s.t.Context(), s.socket(), s.agent, patience, what, func(st *api.Status) bool { return done(*st) })
	s.must(err)
}

// handled waits until the broker has handed everything over and the pipelines have worked it in.
func (s *site) handled() { s.t.Helper(); s.quiet(false) }

// settled waits until every result is delivered as well.
func (s *site) settled() { s.t.Helper(); s.quiet(true) }

func (s *site) quiet(delivered bool) {
	s.t.Helper()
	emptied := false // before the agent was asked: a status may be older than what it acknowledged since
	s.eventually("everything is done", func(st api.Status) bool {
		before := emptied
		i := s.broker.Session(client)
		if emptied = i.Connected && i.Queued+i.InFlight == 0; !before || !emptied {
			return false
		}
		for _, p := range st.Pipelines {
			if p.State != "running" || p.Lag > 0 {
				return false
			}
			for _, k := range p.Sinks {
				if delivered && (k.Pending > 0 || k.Error != "") {
					return false
				}
			}
		}
		return true
	})
}

// publish sends a message of a case.
func (s *site) publish(l line) { s.broker.Publish(l.Topic, l.QoS, l.Retain, l.bytes()) }

// sinkData reads the rows of a file sink, and demands a sequence without a hole.
func (s *site) sinkData(name string) (rows []string) {
	s.t.Helper()
	all, err := rig.FileRows(filepath.Join(s.dir, "files", name), 1)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	s.must(err)
	for _, r := range all {
		rows = append(rows, string(r))
	}
	return rows
}
