package agent

import (
	"context"
	"encoding/json"
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
	"github.com/weirstream/weir/agent/statedir"
	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/store/disk"
	"github.com/weirstream/weir/store/journal"
	"github.com/weirstream/weir/store/log"
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

// benchAt is a bench with the pipeline p, which runs and has delivered messages 1 to last.
func benchAt(t *testing.T, last int) *bench {
	t.Helper()
	b := newBench(t, pipelineNamed("p", "log"))
	b.start()
	b.put(1, last)
	b.await("delivery", at(uint64(last)))
	return b
}

func newBench(t *testing.T, pipelines string) *bench {
	b := &bench{t: t, dir: t.TempDir(), options: Options{Logger: slog.New(slog.NewTextHandler(t.Output(), nil)), system: soundStorage(t)}}
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
const patience = rig.Patience

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
	id, err := statedir.ParseUUID(b.agent.registry.UUID(name))
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
