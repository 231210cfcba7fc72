package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirstream/weir/agent/api"
	"github.com/weirstream/weir/agent/config"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
	"github.com/weirstream/weir/store/pebblekv"
	"github.com/weirstream/weir/tests/rig"
	"github.com/weirstream/weir/uplink"
	"github.com/weirstream/weir/uplink/receiver"
	"github.com/weirstream/weir/uplink/wire"
)

// bench is an agent without brokers: tests put entries into its journal, and read what its upstream holds.
type bench struct {
	t        *testing.T
	dir      string
	text     string
	file     string // where the text is written when an agent starts; "": nowhere
	options  Options
	receiver *receiver.Receiver
	url      string            // of the receiver
	spoil    func(*plan.Graph) // of each pipeline; nil: as compiled
	unkept   bool              // the agent does not look after the journal's space: the test does
	agent    *Agent
	stop     context.CancelFunc
	done     chan error
}

const benchConfig = `
gateway: test
state_dir: DIR/state
security: {allow_private: true, file_root: DIR/files}
journal: {max_bytes: 8MiB, segment: 256KiB, reserve: 0, linger: 0s}
sources:
  s:
    mqtt: {broker: none, topic: "t/{k}", qos: 1}
    decode: json
    fields: {id: int, ts: int}
    time: {field: ts, unit: ms, out_of_orderness: 0s}
pipelines:
`

const onePipeline = `
  NAME:
    start: earliest
    checkpoint: {interval: 50ms, store: STORE}
    restart: {strategy: fixed-delay, attempts: 3, delay: 10ms}
    steps:
      - {uid: all, from: s, select: [id, k]}
      - {uid: w, from: s, by: [k], window: {tumbling: 10ms}, aggregate: {n: count()}}
    sinks:
      - {uid: now, from: all, commit: immediate, http: {url: "URL"}}
      - {uid: later, from: w, http: {url: "URL"}}
`

func newBench(t *testing.T, pipelines string) *bench {
	b := &bench{t: t, dir: t.TempDir(), options: Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil))}}
	r, err := receiver.Open(receiver.Options{Path: filepath.Join(b.dir, "far.db"), Config: receiver.Default(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	b.receiver, b.url = r, server.URL
	b.text = strings.NewReplacer("DIR", b.dir, "URL", server.URL).Replace(benchConfig + pipelines)
	return b
}

func pipelineNamed(name, store string) string {
	return strings.NewReplacer("NAME", name, "STORE", store).Replace(onePipeline)
}

func (b *bench) parse() *config.Config {
	b.t.Helper()
	file := "test.yaml"
	if b.file != "" {
		file = b.file
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			b.t.Fatal(err)
		}
	}
	cfg, err := config.ParseWith(file, []byte(b.text), os.ReadFile)
	if err != nil {
		b.t.Fatal(err)
	}
	for _, p := range cfg.Pipelines {
		for _, r := range p.Regions() {
			if b.spoil != nil {
				b.spoil(r.Graph)
			}
		}
	}
	return cfg
}

func (b *bench) start() { b.t.Helper(); b.startWith(func(*Agent) {}) }

// startWith starts an agent that change has changed.
func (b *bench) startWith(change func(*Agent)) {
	b.t.Helper()
	a, err := New(b.parse(), b.options)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.unkept {
		a.spaceEvery = time.Hour
	}
	change(a)
	ctx, stop := context.WithCancel(context.Background())
	b.run(a, ctx, stop)
}

// run runs an agent until halt, or until the test ends: one that is left would log into a test that is over.
func (b *bench) run(a *Agent, ctx context.Context, stop func()) {
	done, over := make(chan error, 1), make(chan struct{})
	b.agent, b.stop, b.done = a, stop, done
	go func() {
		defer close(over)
		done <- a.Run(ctx)
	}()
	b.t.Cleanup(func() {
		stop()
		<-over
	})
}

// halt ends a run: with the ledger.
func (b *bench) halt() {
	b.t.Helper()
	if err := rig.CheckLedger(func() (api.Status, error) { return b.agent.Status(), nil }, ledgerWait); err != nil {
		b.t.Error(err)
	}
	b.end()
}

// ledgerWait bounds the wait for an agent that is to be stopped while it works.
const ledgerWait = 3 * time.Second

// put journals messages first..last; each has its id and an event time of its own.
func (b *bench) put(first, last int) {
	b.t.Helper()
	for i := first; i <= last; i++ {
		e := &pipeline.Entry{
			Kind: pipeline.EntryMessage, Source: "s", QoS: 1, Topic: []byte("t/k"), Payload: fmt.Appendf(nil, `{"id":%d,"ts":%d}`, i, 1767225600000+int64(i)),
		}
		if _, err := b.agent.journal.Append(e); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := b.agent.journal.Sync(b.t.Context()); err != nil { // the status counts what is durable: from here on it shows them as lag
		b.t.Fatal(err)
	}
}

// patience bounds every wait: only a failure takes so long, on a machine that does much else besides.
const patience = 2 * time.Minute

// await waits until the condition holds.
func (b *bench) await(what string, ok func(s *api.Status) bool) api.Status {
	b.t.Helper()
	var s api.Status
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		s = b.agent.Status()
		if ok(&s) {
			return s
		}
		time.Sleep(20 * time.Millisecond)
	}
	text, _ := json.MarshalIndent(s, "", " ")
	b.t.Fatalf("%s did not happen in %s:\n%s", what, patience, text)
	return s
}

func settled(s *api.Status) bool {
	for i := range s.Pipelines {
		p := &s.Pipelines[i]
		if p.State != "running" || p.Lag > 0 || !p.Balanced || p.Checkpoint.Position < p.Position {
			return false
		}
		for _, k := range p.Sinks {
			if k.Pending > 0 {
				return false
			}
		}
	}
	return true
}

// ids are what the upstream holds of a sink of pass-through rows, with the generation of each.
func (b *bench) ids(name, sink string) (ids []int, generations []uint64) {
	b.t.Helper()
	id, err := parseUUID(b.agent.registry.UUID(name))
	if err != nil {
		b.t.Fatal(err)
	}
	err = b.receiver.Records(uplink.Stream{Gateway: "test", Pipeline: id.String(), Sink: sink}, func(g uint64, l wire.Line) error {
		var row struct{ ID int }
		if err := json.Unmarshal(l.Data, &row); err != nil {
			return err
		}
		ids, generations = append(ids, row.ID), append(generations, g)
		return nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return ids, generations
}

func (b *bench) wantIDs(name string, want ...[2]int) {
	b.t.Helper()
	var all []int
	for _, r := range want {
		for i := r[0]; i <= r[1]; i++ {
			all = append(all, i)
		}
	}
	got, _ := b.ids(name, "now")
	if fmt.Sprint(got) != fmt.Sprint(all) {
		b.t.Errorf("upstream holds %v, want %v", got, all)
	}
}

func TestAgentStopsAndGoesOn(t *testing.T) {
	large := strings.Replace(pipelineNamed("p", "pebble"), "    steps:", "    state: {backend: pebble, memory: 4MiB}\n    steps:", 1)
	pipelines := map[string]string{"log": pipelineNamed("p", "log"), "bbolt": pipelineNamed("p", "bbolt")}
	if pebblekv.Built {
		pipelines["pebble"] = large
		pipelines["log-of-pebble"] = strings.Replace(large, "store: pebble", "store: log", 1)
	}
	for name, text := range pipelines {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, text)
			b.start()
			b.put(1, 500)
			b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 500 })
			b.halt()
			b.start()
			b.put(501, 700)
			s := b.await("delivery after a restart", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 700 })
			if got := s.Pipelines[0].Sources[0].Received; got != 700 {
				t.Errorf("ledger counts %d records, want 700: a restart counts nothing twice", got)
			}
			b.halt()
			b.wantIDs("p", [2]int{1, 700})
		})
	}
}

func TestSecondAgentIsRefused(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	defer b.halt()
	if _, err := New(b.parse(), b.options); !errors.Is(err, ErrLocked) {
		t.Fatalf("a second agent on the same state_dir: %v, want ErrLocked", err)
	}
}

// TestCase20_NewPipelineOfTheSameNameStartsEmpty: deleted and made again, a pipeline has another identity.
func TestCase20_NewPipelineOfTheSameNameStartsEmpty(t *testing.T) {
	b := newBench(t, pipelineNamed("r1", "log"))
	with := b.text
	b.start()
	b.put(1, 20)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 20 })
	first := b.agent.registry.UUID("r1")
	b.halt()
	b.text = strings.Replace(with, "  r1:", "  other:", 1)
	b.start()
	b.halt()
	b.text = with
	b.start()
	s := b.await("start", settled)
	b.halt()
	if again := b.agent.registry.UUID("r1"); again == first || again == "" {
		t.Errorf("identity %q again", again)
	}
	if s.Pipelines[0].Checkpoint.ID > 2 {
		t.Errorf("it began with checkpoint %d: state was inherited", s.Pipelines[0].Checkpoint.ID)
	}
}

// TestRule21_StartBelowTheJournalIsAReportedGap: never a silent jump.
func TestRule21_StartBelowTheJournalIsAReportedGap(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, 100)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
	b.halt()
	first := b.letGo(40_000)

	b.start()
	s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if e := s.Pipelines[0].Error; !strings.Contains(e, fmt.Sprintf("to %d are gone", first-1)) || !strings.Contains(e, "--accept-gap p") {
		t.Errorf("the refusal does not name the range and the way out: %s", e)
	}
	b.halt()

	b.options.AcceptGap = map[string]bool{"p": true}
	b.start()
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	kept, err := b.agent.Checkpoints("p")
	if err != nil || len(kept) == 0 {
		t.Fatalf("checkpoints: %v %v", kept, err)
	}
	for _, c := range kept {
		if pipeline.Position(c.Position) < first-1 {
			t.Errorf("checkpoint %d at %d is still there: a restart would fall behind the gap, %d", c.ID, c.Position, first)
		}
	}
	if b.agent.acceptGap.given("p") {
		t.Error("the permission is good for another gap")
	}
	b.put(50_001, 50_100)
	b.await("delivery behind the gap", func(s *api.Status) bool {
		return settled(s) && s.Pipelines[0].Lag == 0 && s.Pipelines[0].Position > uint64(first)
	})
	b.halt()
	b.options.AcceptGap = nil
	b.start() // the flag is for one start
	b.put(50_101, 50_120)
	b.await("delivery after another restart", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Sinks[0].Generation == 2 })
	b.halt()
	ids, generations := b.ids("p", "now")
	seen := map[int]bool{}
	for i, id := range ids {
		if seen[id] {
			t.Fatalf("%d arrived twice", id)
		}
		seen[id] = true
		if want := uint64(1); id <= 100 && generations[i] != want || id > 100 && generations[i] != 2 {
			t.Fatalf("%d is in generation %d", id, generations[i])
		}
	}
	for id := 50_001; id <= 50_120; id++ {
		if !seen[id] {
			t.Fatalf("%d is missing behind the gap", id)
		}
	}
}

// letGo fills the journal beside the stopped agent and trims below its end, as a full journal that lets go does. It gives the first record left.
func (b *bench) letGo(records int) pipeline.Position {
	b.t.Helper()
	c := log.Default()
	c.MaxBytes, c.SegmentBytes, c.ReserveBytes = 8<<20, 256<<10, 0
	j, _, err := journal.Open(journal.Options{FS: disk.OS, Dir: filepath.Join(b.dir, "state", "journal"), Config: c, Stamp: func() pipeline.Stamp { return pipeline.Stamp{Elapsed: 1 << 50} }})
	if err != nil {
		b.t.Fatal(err)
	}
	for i := range records {
		payload := fmt.Appendf(nil, `{"id":%d,"ts":%d,"x":%x}`, 1000+i, 1767225600000+int64(1000+i), i*i)
		if _, err := j.Append(&pipeline.Entry{Kind: pipeline.EntryMessage, Source: "other", Topic: []byte("t/k"), Payload: payload}); err != nil {
			b.t.Fatal(err)
		}
	}
	if err := j.Sync(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	j.Retain("test", j.Last()-10)
	if err := j.Trim(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	first := j.First()
	if first <= 100 {
		b.t.Fatalf("nothing was trimmed: first is %d", first)
	}
	if err := j.Close(); err != nil {
		b.t.Fatal(err)
	}
	return first
}

func pos(n uint64) pipeline.Position { return pipeline.Position(n) }

// TestRule19_LagAboveItsLimitDetachesARunningPipeline: it fails and names why; started while its records are there it loses nothing,
// and the other pipeline never notices. on_full: hold keeps it and says so.
func TestRule19_LagAboveItsLimitDetachesARunningPipeline(t *testing.T) {
	slow := strings.NewReplacer(`"URL"`, `"http://127.0.0.1:9/weir"`, "uid: now,", "uid: now, max_bytes: 64KiB,", "start: earliest", "start: earliest\n    on_full: detach\n    lag_limit: 100KiB").Replace(pipelineNamed("slow", "log"))
	b := newBench(t, slow+pipelineNamed("p", "log"))
	b.text = strings.Replace(b.text, "segment: 256KiB", "segment: 256KiB, compress: false", 1)
	b.unkept = true
	b.start()
	b.put(1, 20_000)
	b.await("delivery of the other", func(s *api.Status) bool {
		return s.Pipelines[1].Position >= 20_000 && s.Pipelines[1].Sinks[0].Pending == 0
	})
	s := b.await("lag", func(s *api.Status) bool { return s.Pipelines[0].LagBytes > 100<<10 })
	if !strings.Contains(strings.Join(s.Problems, "\n"), "pipeline slow lags about") {
		t.Errorf("problems do not tell of the lag: %q", s.Problems)
	}
	b.agent.letGo(t.Context(), map[string]stall{}, time.Now())
	s = b.agent.Status()
	if p := s.Pipelines[0]; p.State != "failed" || !strings.Contains(p.Error, "lag_limit is 102400") {
		t.Errorf("%s: %s", p.State, p.Error)
	}
	if _, held := b.agent.journal.Stats().Holders[b.agent.holderName("slow")]; held {
		t.Error("it still holds the journal")
	}
	if err := b.agent.StartPipeline(t.Context(), "slow"); err != nil {
		t.Fatal(err)
	}
	b.await("start", func(s *api.Status) bool {
		return s.Pipelines[0].State == "running" && s.Pipelines[1].State == "running"
	})
	b.halt()
	b.wantIDs("p", [2]int{1, 20_000})
}

// TestRule21_LetGoWhileRunning ends in the same place as a start below the journal: started again, the pipeline names what is
// lost.
func TestRule21_LetGoWhileRunning(t *testing.T) {
	slow := strings.NewReplacer(`"URL"`, `"http://127.0.0.1:9/weir"`, "uid: now,", "uid: now, max_bytes: 64KiB,").Replace(pipelineNamed("slow", "log"))
	b := newBench(t, slow+pipelineNamed("p", "log"))
	b.text = strings.Replace(b.text, "segment: 256KiB", "segment: 256KiB, compress: false", 1)
	b.unkept = true
	b.start()
	for last := 5_000; last <= 30_000; last += 5_000 {
		b.put(last-4_999, last)
		b.await("delivery of the other", func(s *api.Status) bool { return s.Pipelines[1].Position >= uint64(last) })
		if _, err := b.agent.TriggerCheckpoint(t.Context(), "p"); err != nil {
			t.Fatal(err)
		}
	}
	b.await("start", func(s *api.Status) bool { return s.Pipelines[0].State == "running" })
	moved := map[string]stall{"slow": {position: b.agent.journal.Stats().Holders[b.agent.holderName("slow")], since: time.Now().Add(-2 * RetainFailedDefault)}}
	holders := b.agent.holders(moved, time.Now())
	if got := LetGo(true, holders, RetainFailedDefault); len(got) != 1 || got[0] != "slow" {
		t.Fatalf("a full journal would let go of %v: %+v", got, holders)
	}
	if err := b.agent.all()[0].ask(t.Context(), command{fail: fmt.Errorf("%w: %w", errFinal, errLetGo)}); err != nil {
		t.Fatal(err)
	}
	b.agent.journal.Release(b.agent.holderName("slow"))
	if err := b.agent.journal.Trim(t.Context()); err != nil {
		t.Fatal(err)
	}
	if first := b.agent.journal.First(); first < 5_000 {
		t.Fatalf("nothing was trimmed: first is %d", first)
	}
	if err := b.agent.StartPipeline(t.Context(), "slow"); err != nil {
		t.Fatal(err)
	}
	s := b.await("refusal", func(s *api.Status) bool { return s.Pipelines[0].State == "failed" })
	if e := s.Pipelines[0].Error; !strings.Contains(e, "are gone") || !strings.Contains(e, "--accept-gap slow") {
		t.Errorf("the refusal does not name the way out: %s", e)
	}
	b.halt()
	b.wantIDs("p", [2]int{1, 30_000})
}

// TestPositionsOfCheckpointsAreNeverGivenOutAgain, whatever became of the journal's end: else new records would lie where the
// pipeline has been, and be passed over in silence.
func TestPositionsOfCheckpointsAreNeverGivenOutAgain(t *testing.T) {
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, 100)
	b.await("delivery", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 100 })
	b.halt()
	if err := os.RemoveAll(filepath.Join(b.dir, "state", "journal")); err != nil {
		t.Fatal(err)
	}
	b.start()
	b.put(101, 150)
	b.await("delivery behind the loss", func(s *api.Status) bool { return settled(s) && s.Pipelines[0].Position >= 150 })
	b.halt()
	b.wantIDs("p", [2]int{1, 150})
}
