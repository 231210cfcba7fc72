// Package crash is the torture run: a real mosquitto, the agent as a child that is killed with SIGKILL at random instants or loses what it
// has not synced to a power cut, TCP resets between them, broker restarts, a receiver that is killed and loses answers after its commit.
// The oracle reads the receiver's own data: lost 0, duplicate 0, results equal to the truth.
//
// `make crash` runs it long (WEIR_CRASH=long); `go test` runs a short form.
package crash

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	_ "github.com/weirstream/weir/agent" // the program is built from it: a change there must make cached results stale
	"github.com/weirstream/weir/tests/rig"
)

var (
	binary   string // the agent under test, built by TestMain
	seedFlag = flag.Uint64("seed", 0, "seed of the strikes, as a failed run printed it; 0: a new one for each run")
	keepFlag = flag.String("keep", "", "directory that keeps logs and state of the runs")
)

func TestMain(m *testing.M) {
	if args := os.Getenv(roleEnv); args != "" {
		os.Exit(receiverMain(args))
	}
	if err := flag.Set("test.parallel", strconv.Itoa(runsAtOnce*runtime.GOMAXPROCS(0))); err != nil { // -parallel, when it is given, is read behind this
		panic(err)
	}
	os.Exit(rig.RunWithWeir(m, &binary, "-tags", "weirfault"))
}

// runsAtOnce is how many runs share a processor: each has servers, ports and directories of its own, and waits most of its time.
const runsAtOnce = 2

// scenario is one run.
type scenario struct {
	name             string
	qos              byte
	messages, rate   int
	kills, resets    int
	brokerRestarts   int
	receiverRestarts int
	env              []string // WEIR_FAULT=...
	config           string
	brokers          string                                 // besides that of the sources
	streams          int                                    // sinks of the config
	judge            func(upstream, int) ([]verdict, error) // nil: judge
	patience         time.Duration
	powerCuts        int                                    // kills after which what was not synced is lost
	syncDelay        time.Duration                          // each sync of the agent takes so much longer; only where power cuts are
	strike           func(*stage, *scenario)                // instead of killAgent, as often as kills
	ready            func(*stage) bool                      // a strike waits for it while messages go on; nil: it is
	damage           func(t *testing.T, dir string) (n int) // done to a pipeline's directory while the agent is dead
	beforeFinish     func(*stage)                           // when all is published; nil: nothing
	more             func(*stage, func(n int, do func()))   // further strikes
	receiver         string                                 // kind of upstream; "": the reference receiver
	receiverEnv      []string                               // WEIR_FAULT=... of the receiver
	receiverLine     bool                                   // the agent reaches the receiver through stage.line
	dir              string                                 // where the run lives; "": a new one
}

func long() bool { return os.Getenv("WEIR_CRASH") == "long" }

func TestCrash(t *testing.T) {
	if testing.Short() {
		t.Skip("real processes; not in -short")
	}
	t.Parallel()
	scenarios := []scenario{
		{name: "qos1", qos: 1, messages: 15_000, rate: 1500, kills: 7, resets: 4, brokerRestarts: 1, receiverRestarts: 1},
		{name: "qos2", qos: 2, messages: 6_000, rate: 1000, kills: 3, resets: 2, receiverRestarts: 1},
		{name: "power", qos: 1, messages: 9_000, rate: 1200, kills: 2, powerCuts: 7, syncDelay: slowSync, resets: 1, receiverRestarts: 1},
		{name: "engine", qos: 1, messages: 12_000, rate: 1200, kills: 4, powerCuts: 4, syncDelay: slowSync, resets: 2, brokerRestarts: 1, receiverRestarts: 1, config: engine},
	}
	if long() {
		scenarios = []scenario{
			{name: "qos1", qos: 1, messages: 100_000, rate: 3000, kills: 50, resets: 30, brokerRestarts: 3, receiverRestarts: 5},
			{name: "qos2", qos: 2, messages: 50_000, rate: 3000, kills: 50, resets: 30, brokerRestarts: 3, receiverRestarts: 5},
			{name: "power1", qos: 1, messages: 60_000, rate: 2000, kills: 10, powerCuts: 40, syncDelay: slowSync, resets: 10, brokerRestarts: 1, receiverRestarts: 3},
			{name: "power2", qos: 2, messages: 30_000, rate: 2000, kills: 5, powerCuts: 20, syncDelay: slowSync, resets: 5, brokerRestarts: 1, receiverRestarts: 3},
			{name: "engine1", qos: 1, messages: 60_000, rate: 2000, kills: 25, powerCuts: 25, syncDelay: slowSync, resets: 20, brokerRestarts: 3, receiverRestarts: 5, config: engine},
			{name: "engine2", qos: 2, messages: 30_000, rate: 2000, kills: 15, powerCuts: 10, syncDelay: slowSync, resets: 10, brokerRestarts: 1, receiverRestarts: 3, config: engine},
		}
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			s.patience = rig.Patience
			if s.config == engine {
				s.streams, s.judge = engineStreams, judgeEngine
			} else {
				s.config, s.streams = torture, tortureStreams
			}
			if s.powerCuts > 0 {
				s.config = busyJournal + s.config
			}
			s.exact(t)
		})
	}
}

// exact runs the scenario and asks for exactly once.
func (s *scenario) exact(t *testing.T) {
	t.Helper()
	verdicts, problems := s.run(t)
	wantExact(t, verdicts, problems)
}

// wantExact asks for exactly once in every stream, and for nothing else that is wrong.
func wantExact(t *testing.T, verdicts []verdict, problems []string) {
	t.Helper()
	for _, v := range verdicts {
		if t.Log(v); !v.OK() {
			t.Errorf("%s is not exactly once", v.Stream)
		}
	}
	for _, p := range problems {
		t.Error(p)
	}
}

// run gives what the oracle says of each stream, and what else is not as it must be.
func (s *scenario) run(t *testing.T) (verdicts []verdict, problems []string) {
	st := newStage(t, s, drawn(t))
	st.publishAll(s)
	if s.beforeFinish != nil {
		s.beforeFinish(st)
	}
	return st.finish(s)
}

// drawn gives the strikes of a run, those of -seed again.
func drawn(t *testing.T) *rand.Rand {
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (again: go test ./tests/crash -run %s -seed %d)", seed, t.Name(), seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// readyEvery is after how many messages a scenario is asked whether it is ready.
const readyEvery = 20

// publishAll publishes every message at the rate and strikes at random instants.
func (st *stage) publishAll(s *scenario) {
	strikes := st.plan(s)
	start := time.Now()
	for n := range s.messages {
		for len(strikes) > 0 && strikes[0].at <= n && (s.ready == nil || n%readyEvery == 0 && s.ready(st)) {
			strikes[0].do()
			strikes = strikes[1:]
		}
		payload, _ := json.Marshal(messageOf(n))
		st.publish(topicOf(n), payload)
		if n%50 == 0 {
			if ahead := time.Duration(n)*time.Second/time.Duration(s.rate) - time.Since(start); ahead > 0 {
				time.Sleep(ahead)
			}
		}
	}
	st.publishFlush(s.messages)
}

// publishFlush closes every window; ids go on from id.
func (st *stage) publishFlush(id int) {
	st.t.Helper()
	for i, topic := range []string{"t/a/flush", "t/b/flush"} {
		payload, _ := json.Marshal(message{ID: id + i, K: "flush", TS: baseMs + 3_600_000})
		st.publish(topic, payload)
	}
	st.settle()
}

func (st *stage) publish(topic string, payload []byte) {
	st.t.Helper()
	st.must(st.publisher.Publish(st.t.Context(), topic, false, payload))
}

// settle waits until the broker has acknowledged everything. It comes before the broker restarts: what a publisher sends again on its
// own is a new message at QoS 1, and none of the agent's doing.
func (st *stage) settle() {
	st.t.Helper()
	st.must(st.publisher.Flush(st.t.Context()))
}

type strike struct {
	at int
	do func()
}

// plan spreads the strikes over the run, at random.
func (st *stage) plan(s *scenario) (all []strike) {
	add := func(n int, do func()) {
		for i := range n {
			at := (i*s.messages + st.random.IntN(s.messages)) / n
			all = append(all, strike{at, do})
		}
	}
	kill := (*stage).killAgent
	if s.strike != nil {
		kill = s.strike
	}
	add(s.kills, func() { kill(st, s) })
	add(s.powerCuts, func() { st.cutPower() })
	add(s.resets, func() { st.proxy.Reset() })
	add(s.brokerRestarts, func() {
		st.settle()
		st.must(st.broker.Restart())
	})
	add(s.receiverRestarts, func() {
		st.receiver.Kill()
		st.startReceiver(s)
	})
	if s.more != nil {
		s.more(st, add)
	}
	for i := range all { // insertion sort: there are a hundred
		for j := i; j > 0 && all[j].at < all[j-1].at; j-- {
			all[j], all[j-1] = all[j-1], all[j]
		}
	}
	return all
}

// killAgent is kill -9 at whatever the agent does; now and then again while it starts, or in the middle of a graceful stop.
func (st *stage) killAgent(s *scenario) {
	switch st.random.IntN(6) {
	case 0:
		st.agent.Stop(time.Duration(st.random.IntN(60)) * time.Millisecond) //nolint:errcheck // killed when the time is over
		st.stops++
	case 1:
		st.agent.Kill()
		st.startAgent()
		time.Sleep(time.Duration(st.random.IntN(150)) * time.Millisecond)
		st.agent.Kill()
		st.starts++
	default:
		st.agent.Kill()
	}
	st.kills++
	if s.damage != nil {
		dirs, err := filepath.Glob(filepath.Join(st.dir, "state", "pipelines", "*"))
		st.must(err)
		for _, dir := range dirs {
			st.damaged += s.damage(st.t, dir)
		}
	}
	st.startAgent()
}

// finish waits until the agent has delivered what it has, stops everything and asks the oracle.
func (st *stage) finish(s *scenario) (verdicts []verdict, problems []string) {
	if !st.waitIdle(s) {
		st.dump()
		problems = append(problems, "the agent did not become idle")
	}
	if err := rig.CheckLedgerAt(st.t.Context(), filepath.Join(st.dir, "state", "weir.sock"), 10*time.Second); err != nil {
		problems = append(problems, err.Error())
	}
	if err := st.agent.Stop(rig.Patience); err != nil {
		st.dump()
		problems = append(problems, fmt.Sprintf("graceful stop: %v", err))
	}
	st.receiver.Kill()
	r, err := openUpstream(s.receiver, filepath.Join(st.dir, receiverFile), slog.New(slog.DiscardHandler))
	st.must(err)
	defer r.Close()
	if s.judge == nil {
		s.judge = judge
	}
	verdicts, err = s.judge(r, s.messages)
	st.must(err)
	if len(verdicts) != s.streams {
		problems = append(problems, fmt.Sprintf("%d streams arrived, want %d", len(verdicts), s.streams))
	}
	st.t.Logf("%d messages at QoS %d, %d kill -9 (%d more during start, %d within a graceful stop), %d resets, %d broker restarts, %d receiver restarts, %d checkpoints damaged",
		s.messages, s.qos, st.kills, st.starts, st.stops, s.resets, s.brokerRestarts, s.receiverRestarts, st.damaged)
	if st.power != nil {
		st.t.Logf("%d power cuts: %s", st.power.Cuts(), st.power.Taken)
	}
	return verdicts, problems
}

// waitIdle waits until nothing is pending for a while: a short one when everything has arrived, else one in which a starved broker would
// send something. It gives up when nothing has changed for patience, or in all for patienceAll of it: a slow machine takes its time.
func (st *stage) waitIdle(s *scenario) bool {
	const pause, short, while, patienceAll = 250 * time.Millisecond, 4, 20, 3
	start, moved := time.Now(), time.Now()
	quiet := 0
	var last string
	for time.Since(moved) < s.patience && time.Since(start) < patienceAll*s.patience {
		select {
		case <-st.agent.Done():
			return false
		case <-time.After(pause):
		}
		status, ok := st.status()
		if ok && status.failed() {
			return false
		}
		if ok && status.summary() != last {
			moved = time.Now()
		}
		if !ok || !status.settled() || status.summary() != last {
			quiet = 0
			last = status.summary()
			continue
		}
		if quiet++; quiet >= while || quiet >= short && status.received(s.messages) {
			return true
		}
	}
	return false
}
