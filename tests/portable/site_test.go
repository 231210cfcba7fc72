package portable

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// patience bounds every wait.
const patience = rig.Patience

// site is one gateway: a state directory that agents of any machine take over from each other.
type site struct {
	t      *testing.T
	dir    string
	broker *rig.Broker
	client string // id at the broker
	on     *machine
	env    []string
	agent  *rig.Child
	files  []string // savepoints
}

// newSite makes a gateway; all of it is gone when the test ends.
func newSite(t *testing.T, broker *rig.Broker, client string) *site {
	t.Helper()
	dir, err := os.MkdirTemp("", "weir-site-") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &site{t: t, dir: dir, broker: broker, client: client}
}

func (s *site) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// start writes the config and starts the agent of a machine over what there is; it returns when the pipeline runs.
func (s *site) start(m *machine, set setting) {
	s.t.Helper()
	s.on = m
	s.must(os.WriteFile(filepath.Join(s.dir, "weir.yaml"), []byte(set.config(s.dir, s.broker.Addr(), s.client)), 0o644))
	s.goOn()
}

func (s *site) goOn() {
	s.t.Helper()
	call := s.on.command("run", "-c", filepath.Join(s.dir, "weir.yaml"))
	child, err := rig.StartChild(filepath.Join(s.dir, "agent.log"), s.env, call[0], call[1:]...)
	s.must(err)
	s.agent = child
	s.t.Cleanup(child.Kill)
	s.await("the pipeline runs", func(st *api.Status) bool {
		return len(st.Sessions) == 1 && st.Sessions[0].State == "ready" && st.Pipelines[0].State == "running"
	})
}

// weir runs a command of the CLI on the machine.
func (s *site) weir(args ...string) string {
	s.t.Helper()
	out, err := s.try(s.on, append(args, "-c", filepath.Join(s.dir, "weir.yaml"))...)
	if err != nil {
		s.fail("weir %s on %s: %v\n%s", strings.Join(args, " "), s.on.name, err, out)
	}
	return out
}

func (s *site) try(m *machine, args ...string) (string, error) {
	return s.pipe(nil, m, args...)
}

// pipe runs a command that reads what another one wrote.
func (s *site) pipe(in io.Reader, m *machine, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	call := m.command(args...)
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, call[0], call[1:]...)
	cmd.Stdin, cmd.Stderr = in, &stderr
	out, err := cmd.Output()
	return string(out) + stderr.String(), err
}

func (s *site) fail(format string, args ...any) {
	s.t.Helper()
	log, _ := os.ReadFile(filepath.Join(s.dir, "agent.log"))
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), log[max(0, len(log)-4000):])
}

// await waits until the status says so.
func (s *site) await(what string, done func(*api.Status) bool) {
	s.t.Helper()
	_, err := rig.AwaitStatus(s.t.Context(), filepath.Join(s.dir, "s"), s.agent, patience, what, func(st *api.Status) bool {
		return len(st.Pipelines) == 1 && done(st)
	})
	if err != nil {
		s.fail("on %s: %v", s.on.name, err)
	}
}

// reads waits until the pipeline has gone past so many records of the journal.
func (s *site) reads(n int) {
	s.t.Helper()
	s.await(fmt.Sprintf("%d records are read", n), func(st *api.Status) bool { return st.Pipelines[0].Position >= uint64(n) })
}

// stop ends the pipeline behind a savepoint and then the agent, which goes on to take messages in between: so many records are in the journal
// when it ends. It gives the savepoint.
func (s *site) stop(between func() (records int)) string {
	s.t.Helper()
	name := fmt.Sprintf("leg%d", len(s.files))
	s.weir("pipeline", "stop", "p", "--savepoint", "--name", name)
	n := between()
	s.await(fmt.Sprintf("%d records are in the journal", n), func(st *api.Status) bool { return st.Journal.Last >= uint64(n) })
	s.must(s.agent.Stop(patience))
	found, err := filepath.Glob(filepath.Join(s.dir, "state", "savepoints", name+"*.savepoint"))
	s.must(err)
	if len(found) != 1 {
		s.fail("%d savepoints are called %s", len(found), name)
	}
	s.files = append(s.files, found[0])
	return found[0]
}

// resume takes over with the agent of another machine, which restores the savepoint.
func (s *site) resume(m *machine, set setting, file string) {
	s.t.Helper()
	s.on = m
	s.must(os.WriteFile(filepath.Join(s.dir, "weir.yaml"), []byte(set.config(s.dir, s.broker.Addr(), s.client)), 0o644))
	s.weir("savepoint", "restore", "p", file)
	s.goOn()
}

// settle waits until all is delivered that so many messages make.
func (s *site) settle(messages int) {
	s.t.Helper()
	s.await("all is delivered", func(st *api.Status) bool {
		p := &st.Pipelines[0]
		received := uint64(0)
		for _, src := range p.Sources {
			received += src.Received
		}
		busy := p.State != "running" || p.Lag > 0 || received < uint64(messages)
		for _, k := range p.Sinks {
			busy = busy || k.Pending > 0
		}
		return !busy
	})
	if problems := s.ledger(); len(problems) > 0 {
		s.fail("%s", strings.Join(problems, "\n"))
	}
}

func (s *site) ledger() []string {
	if err := rig.CheckLedgerAt(s.t.Context(), filepath.Join(s.dir, "s"), patience); err != nil {
		return []string{err.Error()}
	}
	return nil
}

// results are the rows of each sink, in sequence; a hole or a repeat fails the test.
func (s *site) results() map[string][]string {
	s.t.Helper()
	all := map[string][]string{}
	for _, step := range steps {
		rows, err := rig.FileRows(filepath.Join(s.dir, "files", step+".jsonl"), 1)
		s.must(err)
		for _, r := range rows {
			all[step] = append(all[step], string(r))
		}
	}
	return all
}

// differences tells where two runs are not the same.
func differences(got, want map[string][]string) (all []string) {
	for _, step := range steps {
		g, w := got[step], want[step]
		if slices.Equal(g, w) {
			continue
		}
		at := 0
		for at < min(len(g), len(w)) && g[at] == w[at] {
			at++
		}
		here := func(rows []string) string {
			if at < len(rows) {
				return rows[at]
			}
			return "nothing"
		}
		all = append(all, fmt.Sprintf("%s: %d rows, want %d; row %d is\n  %s, want\n  %s", step, len(g), len(w), at+1, here(g), here(w)))
	}
	return all
}
