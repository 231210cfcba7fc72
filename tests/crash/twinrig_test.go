package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/tests/rig"
)

// device is an agent with a board of its own.
type device struct {
	t     *testing.T
	board string
	dir   string
	env   []string
	child *rig.Child
}

// weir runs a command of the CLI.
func (d *device) weir(args ...string) string {
	d.t.Helper()
	out, err := d.try(args...)
	if err != nil {
		d.dump()
		d.t.Fatalf("weir %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (d *device) try(args ...string) (string, error) {
	out, err := exec.Command(binary, append(args, "-c", filepath.Join(d.dir, "weir.yaml"))...).CombinedOutput()
	return string(out), err
}

func (d *device) start() {
	d.t.Helper()
	child, err := rig.StartChild(filepath.Join(d.dir, "agent.log"), d.env, binary, "run", "-c", filepath.Join(d.dir, "weir.yaml"))
	if err != nil {
		d.t.Fatal(err)
	}
	d.child = child
	d.t.Cleanup(child.Kill)
}

// await waits until the status is so.
func (d *device) await(what string, done func(s *api.Status) bool) (s api.Status) {
	d.t.Helper()
	client := api.Dial(filepath.Join(d.dir, "state", "weir.sock"))
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error
		if s, err = client.Status(context.Background()); err == nil && done(&s) {
			return s
		}
	}
	d.dump()
	text, _ := json.MarshalIndent(s, "", " ")
	d.t.Fatalf("device %s: in vain waited until %s\n%s", d.board, what, text)
	return s
}

func (d *device) dump() {
	b, _ := os.ReadFile(filepath.Join(d.dir, "agent.log"))
	d.t.Logf("device %s:\n%s", d.board, b[max(0, len(b)-4000):])
}

func connected(s *api.Status) bool { return len(s.Sessions) > 0 && s.Sessions[0].State == "ready" }

// delivered: all that was received is upstream.
func delivered(messages uint64) func(s *api.Status) bool {
	return func(s *api.Status) bool {
		if len(s.Pipelines) == 0 || s.Pipelines[0].State != "running" || s.Sessions[0].Counters["received"] < messages || s.Pipelines[0].Lag > 0 {
			return false
		}
		return !slices.ContainsFunc(s.Pipelines[0].Sinks, func(k api.SinkLedger) bool { return k.Pending > 0 || k.Emitted < messages && k.UID != "$dead" })
	}
}

func stoodDown(s *api.Status) bool { return s.Identity.Fenced != "" && s.Identity.Stranded != nil }

// twins are two devices with one identity: what one leaves the other takes, and both have the same PostgreSQL, JetStream and object store.
type twins struct {
	*stage
	kinds   []string
	all     []end
	one     *device
	other   *device
	central bool // they have a central store
	number  int  // of messages that were published
	// What the first device has handed over: ids of results by sink, and of messages.
	results map[string][]int
	records []int
}

const twinPipeline = `
pipelines:
  keep:
    start: earliest
    checkpoint: {interval: 200ms}
    steps:
      - {uid: rows, from: a, select: [id]}
    sinks:
`

// newTwins starts the servers and the first device. alone: each device has a session of its own, so that both receive everything.
func newTwins(t *testing.T, alone bool, env ...string) *twins {
	dir := stageDir(t)
	st := &stage{t: t, dir: dir, random: rand.New(rand.NewPCG(1, 1))}
	w := &twins{stage: st}
	config := twinPipeline
	for _, e := range farEnds {
		if !slices.Contains([]string{"postgres", "nats", "s3"}, e.kind) {
			continue
		}
		far, err := e.start(t, dir)
		if errors.Is(err, rig.ErrNoPostgres) || errors.Is(err, rig.ErrNoTool) {
			t.Logf("WARNING: %s is not in this run: %v", e.kind, err)
			continue
		}
		st.must(err)
		if e, ok := far.(*s3End); ok && !alone {
			w.central = true
			config = fmt.Sprintf("\ncentral: {url: \"s3://%s/central\", endpoint: \"http://%s\", credentials_file: \"%s\", interval: 1s, fence_poll: 1s}\n",
				e.s3.Bucket, e.proxy.Addr(), e.s3.CredentialsFile) + config
		}
		w.kinds, w.all = append(w.kinds, e.kind), append(w.all, far)
		for _, commit := range []string{"immediate", "checkpoint"} {
			uid := e.kind + "-" + commit
			target := far.target(uid)
			if p, ok := far.(*postgresEnd); ok {
				target = fmt.Sprintf(`postgres: {dsn_file: "%s", table: %s, create: true, timeout: 5s, columns: {gen: $generation, seq: $seq, id: id}}`, p.dsn, table(uid))
			}
			config += fmt.Sprintf("      - {uid: %s, from: rows, commit: %s, %s}\n", uid, commit, target)
		}
	}
	if len(w.all) == 0 {
		t.Skip("no server to deliver to")
	}
	w.startFirst(config, alone, env)
	return w
}

// startFirst starts the broker, the first of the two devices and the publisher.
func (w *twins) startFirst(config string, alone bool, env []string) {
	w.t.Helper()
	w.startBroker()
	w.one, w.other = w.device("one", config, alone), w.device("other", config, alone)
	w.one.env = env
	w.one.start()
	w.one.await("it is connected", connected)
	w.startPublisher(1)
}

func (w *twins) device(board, config string, alone bool) *device {
	d := &device{t: w.t, board: board, dir: filepath.Join(w.dir, board)}
	w.must(os.Mkdir(d.dir, 0o755))
	text := "board_serial: " + board + fill("", config, d.dir, w.broker.Addr, "", 1)
	if alone {
		text = strings.Replace(text, "client_id: weir-crash", "client_id: weir-crash-"+board, 1)
	}
	w.must(os.WriteFile(filepath.Join(d.dir, "weir.yaml"), []byte(text), 0o644))
	return d
}

func (w *twins) publishMore(n int) {
	w.t.Helper()
	for range n {
		payload, _ := json.Marshal(messageOf(w.number))
		w.number++
		w.publish("t/a/"+messageOf(w.number).K, payload)
	}
	w.settle()
}

// saved is a savepoint of the first device, in a directory of its own.
func (w *twins) saved() string {
	dir := filepath.Join(w.dir, "saved")
	w.one.weir("savepoint", "create", "keep", "--dir", dir)
	return dir
}

// upstreamRow is one at a far end.
type upstreamRow struct {
	generation, seq uint64 // 0: the far end does not tell
	id              int
}

// rows are what a sink's far end holds, in the order in which it came where that is known.
func (w *twins) rows(i int, uid string) (rows []upstreamRow) {
	w.t.Helper()
	switch e := w.all[i].(type) {
	case *postgresEnd:
		list, err := e.pg.Query("SELECT gen, seq, id FROM " + table(uid) + " ORDER BY ctid")
		w.must(err)
		for _, f := range list {
			var n [3]uint64
			for k := range n {
				n[k], err = strconv.ParseUint(f[k], 10, 64)
				w.must(err)
			}
			rows = append(rows, upstreamRow{n[0], n[1], int(n[2])})
		}
	case *natsEnd:
		messages, err := e.messages(uid)
		w.must(err)
		for _, m := range messages {
			if m.Header.Get("Weir-Kind") != "row" {
				continue
			}
			generation, err := strconv.ParseUint(m.Header.Get("Weir-Generation"), 10, 64)
			w.must(err)
			seq, err := strconv.ParseUint(m.Header.Get("Weir-Seq"), 10, 64)
			w.must(err)
			rows = append(rows, upstreamRow{generation, seq, w.id(m.Data)})
		}
	default:
		records, err := e.held(uid)
		w.must(err)
		for _, r := range records {
			rows = append(rows, upstreamRow{id: w.id(r.Data)})
		}
	}
	return rows
}

func (w *twins) id(data []byte) int {
	var m struct{ ID int }
	w.must(json.Unmarshal(data, &m))
	return m.ID
}

// handOver lets the first device hand over what it has.
func (w *twins) handOver() {
	w.t.Helper()
	dir := filepath.Join(w.one.dir, "handover")
	w.one.weir("handover", "export", dir)
	w.results = map[string][]int{}
	type result struct {
		Stream string
		Data   struct{ ID int }
	}
	for _, r := range rig.JSONLines[result](w.t, filepath.Join(dir, "results.jsonl")) {
		uid := r.Stream[strings.LastIndexByte(r.Stream, '/')+1:]
		w.results[uid] = append(w.results[uid], r.Data.ID)
	}
	type record struct{ Payload string }
	for _, r := range rig.JSONLines[record](w.t, filepath.Join(dir, "records.jsonl")) {
		w.records = append(w.records, w.id([]byte(r.Payload)))
	}
}

// firstGeneration is the first device's.
const firstGeneration = 1

// judgeTwins is the oracle: upstream has no row and no number twice and never goes back in its generations; what upstream has not, the first device hands over, and nothing else.
func (w *twins) judgeTwins() (problems []string) {
	w.handOver()
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	for i, kind := range w.kinds {
		for _, uid := range []string{kind + "-immediate", kind + "-checkpoint"} {
			rows := w.rows(i, uid)
			upstream := map[int]uint64{} // generation + 1
			numbers := map[upstreamRow]bool{}
			newest := uint64(0)
			for _, r := range rows {
				number := upstreamRow{r.generation, r.seq, 0}
				switch {
				case upstream[r.id] > 0:
					say("%s: row %d is upstream twice", uid, r.id)
				case r.seq > 0 && numbers[number]:
					say("%s: number %d of generation %d is upstream twice", uid, r.seq, r.generation)
				case r.generation < newest:
					say("%s: row %d of generation %d came behind generation %d", uid, r.id, r.generation, newest)
				}
				numbers[number], newest = true, max(newest, r.generation)
				upstream[r.id] = r.generation + 1
			}
			handed := map[int]bool{}
			for _, id := range append(slices.Clone(w.results[uid]), w.records...) {
				if handed[id] || upstream[id] == 1+firstGeneration {
					say("%s: row %d is handed over twice, or was delivered", uid, id)
				}
				handed[id] = true
			}
			missing := 0
			for id := range w.number {
				if upstream[id] == 0 && !handed[id] {
					missing++
				}
			}
			if missing > 0 {
				say("%s: %d rows are nowhere", uid, missing)
			}
			w.t.Logf("%s: %d rows upstream, %d handed over, generation %d", uid, len(rows), len(w.results[uid]), newest)
		}
	}
	return problems
}
