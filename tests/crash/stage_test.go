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

	"github.com/weirstream/weir/tests/rig"
)

// stage is the processes of a run.
type stage struct {
	t         *testing.T
	dir       string
	config    string // PARALLEL and BACKEND are still to be filled in
	env       []string
	power     *rig.PowerCut // nil: none in this run
	broker    *rig.Mosquitto
	proxy     *rig.Proxy
	agent     *rig.Child
	receiver  *rig.Child
	recvAddr  string
	line      *rig.Proxy // to the receiver; nil: none
	publisher *rig.Publisher
	random    *rand.Rand
	kills     int // all of them
	starts    int // again, while the agent starts
	stops     int // in a graceful stop
	damaged   int // checkpoints
}

func newStage(t *testing.T, s *scenario, random *rand.Rand) *stage {
	dir := s.dir
	if dir == "" {
		dir = stageDir(t)
	}
	st := &stage{t: t, dir: dir, env: append([]string{"WEIR_ANCHOR_EVERY=2000"}, s.env...), random: random}
	if s.powerCuts > 0 || s.syncDelay > 0 {
		var err error
		st.power, err = rig.NewPowerCut(filepath.Join(st.dir, "power"))
		st.must(err)
		st.env = append(st.power.Env(s.syncDelay), st.env...)
	}
	st.startBroker()
	var err error
	st.proxy, err = rig.NewProxy(st.broker.Addr)
	st.must(err)
	t.Cleanup(func() { st.proxy.Close() })
	st.recvAddr, err = rig.FreeAddr()
	st.must(err)
	st.startReceiver(s)
	t.Cleanup(func() { st.receiver.Kill() })
	receiver := st.recvAddr
	if s.receiverLine {
		st.line, err = rig.NewProxy(st.recvAddr)
		st.must(err)
		t.Cleanup(func() { st.line.Close() })
		receiver = st.line.Addr()
	}
	st.config = fill(s.brokers, s.config, st.dir, st.proxy.Addr(), receiver, s.qos)
	st.startAgent()
	t.Cleanup(func() { st.agent.Kill() })
	st.waitReady()
	st.startPublisher(s.qos)
	return st
}

func (st *stage) startBroker() {
	dir := filepath.Join(st.dir, "broker")
	st.must(os.Mkdir(dir, 0o777))
	var err error
	st.broker, err = rig.StartMosquitto(dir, "")
	st.must(err)
	st.t.Cleanup(st.broker.Kill)
}

func (st *stage) startPublisher(qos byte) {
	st.publisher = rig.NewPublisher(rig.PublisherConfig{Addr: st.broker.Addr, ClientID: "crash-publisher", QoS: qos, Window: 100})
	st.t.Cleanup(st.publisher.Close)
}

// stageDir is where a run lives: gone with the test, or kept.
func stageDir(t *testing.T) string {
	if *keepFlag == "" {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(*keepFlag, "run-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func (st *stage) must(err error) {
	st.t.Helper()
	if err != nil {
		st.t.Fatal(err)
	}
}

func (st *stage) startReceiver(s *scenario) {
	self, err := os.Executable()
	st.must(err)
	role := fmt.Sprintf("%s=%s %s %s", roleEnv, st.recvAddr, filepath.Join(st.dir, receiverFile), s.receiver)
	child, err := rig.StartChild(filepath.Join(st.dir, "receiver.log"), append([]string{role}, s.receiverEnv...), self)
	st.must(err)
	st.receiver = child
	st.must(rig.WaitListening(st.recvAddr, child))
}

// startAgent starts the agent with its config, in which each start draws the number of instances and where the tables are.
func (st *stage) startAgent() {
	config := strings.ReplaceAll(st.config, "PARALLEL", fmt.Sprint(1+st.random.IntN(instancesMax)))
	config = strings.ReplaceAll(config, "BACKEND", stateBackends[st.random.IntN(len(stateBackends))])
	st.must(os.WriteFile(filepath.Join(st.dir, "weir.yaml"), []byte(config), 0o644))
	child, err := rig.StartChild(filepath.Join(st.dir, "agent.log"), st.env, binary, "run", "-c", filepath.Join(st.dir, "weir.yaml"))
	st.must(err)
	st.agent = child
}

// waitReady waits for the first SUBSCRIBE: before it there is no session that keeps messages.
func (st *stage) waitReady() {
	if !st.readyWithin(rig.Patience) {
		st.dump()
		st.t.Fatalf("the agent did not subscribe in %s", rig.Patience)
	}
}

func (st *stage) readyWithin(d time.Duration) bool {
	for deadline := time.Now().Add(d); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if status, ok := st.status(); ok && len(status.Sessions) > 0 && status.Sessions[0].State == "ready" {
			return true
		}
	}
	return false
}

// status asks the agent.
func (st *stage) status() (s statusView, ok bool) {
	out, err := exec.Command(binary, "status", "-o", "json", "-c", filepath.Join(st.dir, "weir.yaml")).Output()
	return s, err == nil && json.Unmarshal(out, &s) == nil
}

// instancesMax of a config that leaves their number open.
const instancesMax = 4

// dump shows the end of the agent's log.
func (st *stage) dump() {
	b, err := os.ReadFile(filepath.Join(st.dir, "agent.log"))
	if err == nil {
		st.t.Logf("agent.log:\n%s", b[max(0, len(b)-6000):])
	}
	out, _ := exec.Command(binary, "status", "-c", filepath.Join(st.dir, "weir.yaml")).CombinedOutput()
	st.t.Logf("%s", out)
}
