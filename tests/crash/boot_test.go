package crash

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// sinkErrors are what the status says of a sink of each kind that cannot reach its far end. Before a server stands a line, which ends the connection.
var sinkErrors = map[string]string{"http": "connection refused", "file": "not a directory", "directory": "not a directory"}

// bootLines are the most lines of the log about one sink in one life of the agent: kinds of failure, not tries.
const bootLines = 4

// TestEverySinkIsDownAtBoot: the agent's first start finds no far end of any kind. It runs, names each in its status, keeps the results over kill -9 at a sane
// rate of log lines, and delivers each once when they are there.
func TestEverySinkIsDownAtBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	s := &scenario{qos: 1, messages: 600, rate: 2000, patience: rig.Patience}
	s.dir = stageDir(t)
	all := startEnds(t, s.dir)
	s.config, s.brokers, s.streams = all.config(true), all.brokers(), len(uids("http"))
	kinds := append([]string{"http"}, all.kinds...)
	if err := os.MkdirAll(filepath.Join(s.dir, "files"), 0o755); err != nil {
		t.Fatal(err)
	}
	for i, e := range all.ends {
		if err := e.down(); err != nil {
			t.Fatalf("%s: %v", all.kinds[i], err)
		}
	}
	st := newStage(t, s, rand.New(rand.NewPCG(1, 1)))
	st.agent.Kill()
	st.receiver.Kill()
	st.must(os.RemoveAll(filepath.Join(st.dir, "state"))) // the first agent may have been as far as to open streams
	st.must(os.RemoveAll(filepath.Join(st.dir, receiverFile)))
	st.startAgent()
	st.waitReady()
	st.publishAll(s)
	named := func(status *api.Status) bool {
		for _, kind := range kinds {
			for _, uid := range uids(kind) {
				k := sinkNamed(status, uid)
				// what leaves with a checkpoint is pending from then on
				if k == nil || k.Error == "" || !strings.Contains(k.Error, sinkErrors[kind]) || k.Confirmed != 0 || k.Pending == 0 || k.Pending != k.Emitted {
					return false
				}
			}
		}
		return true
	}
	status := st.awaitStatus("every sink is named", named)
	for _, kind := range kinds {
		t.Log(kind, ": ", sinkNamed(&status, uids(kind)[0]).Error)
	}
	st.agent.Kill()
	st.startAgent()
	st.awaitStatus("every sink is named again", named)
	log, err := os.ReadFile(filepath.Join(st.dir, "agent.log"))
	st.must(err)
	for _, kind := range kinds {
		for _, uid := range uids(kind) {
			if n := strings.Count(string(log), "/"+uid+" "); n < 1 || n > 2*bootLines {
				t.Errorf("%d lines about %s in two lives", n, uid)
			}
		}
	}
	st.startReceiver(s)
	for i, e := range all.ends {
		if err := e.up(); err != nil {
			t.Fatalf("%s: %v", all.kinds[i], err)
		}
	}
	all.judge(t, st, s)
}

func sinkNamed(s *api.Status, uid string) *api.SinkLedger {
	for i := range s.Pipelines {
		for k := range s.Pipelines[i].Sinks {
			if s.Pipelines[i].Sinks[k].UID == uid {
				return &s.Pipelines[i].Sinks[k]
			}
		}
	}
	return nil
}
