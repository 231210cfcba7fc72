package exec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// burst makes value % n rows of one, refuses one in between, and yields where a timer might, which must mean nothing while it works on a row.
type burst struct {
	pipeline.Stateless
	n     uint64
	panic int64 // at this value, behind the first row of those that it makes; 0: never
}

func (b burst) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	v := r.Slots[slotValue].Num
	for i := range v % b.n {
		if i == 2 {
			out.Refuse("third", "", r)
			continue
		}
		slots := out.Slots(width)
		slots[slotTime], slots[slotValue] = r.Slots[slotTime], pipeline.UintValue(v+i)
		out.Emit(0, r.Time, slots)
		out.Yield()
		if b.panic > 0 && v == uint64(b.panic) {
			panic("cannot stand it")
		}
	}
}

// burstGraph: a source whose rows multiply, are filtered (sharing slots), windowed, and come together again at one place.
func burstGraph(n int, panicAt int64) *plan.Graph {
	columns := []codec.Column{{Name: "t", Slot: slotTime}, {Name: "v", Slot: slotValue}}
	merge := func(uid string, op func() pipeline.Operator, from ...plan.Ref) *plan.Step {
		return &plan.Step{UID: uid, Inputs: from, Ports: 1, Width: width, New: op}
	}
	keyed := func() *keyedWindows { return &keyedWindows{} }
	g := &plan.Graph{
		Parallelism: n,
		Sources:     []*plan.Source{testSource("a")},
		Steps: []*plan.Step{
			oneInput("e", sourceRef(0), func() pipeline.Operator { return burst{n: 6} }), // 0
			oneInput("f3", stepRef(0), func() pipeline.Operator { return pass{n: 3} }),
			oneInput("f2", stepRef(0), func() pipeline.Operator { return pass{n: 2} }),
			oneInput("w", stepRef(1), func() pipeline.Operator { return &windows{echo: true} }),                                    // 3
			merge("u", func() pipeline.Operator { return &windows{echo: true} }, stepRef(1), stepRef(2), stepRef(3), sourceRef(0)), // 4
			merge("x", func() pipeline.Operator { return burst{n: 5, panic: panicAt} }, stepRef(4), stepRef(0), stepRef(2)),        // 5
			keyedStep("k", slotValue, keyed, stepRef(5)),                                                                           // 6
			merge("y", func() pipeline.Operator { return pass{n: 1 << 60} }, stepRef(5), stepRef(6)),                               // 7
		},
		Tasks: []plan.Task{{Name: "all", Sources: []int{0}, Steps: []int{0, 1, 2, 3, 4, 5, 6, 7}}},
	}
	for i := range g.Steps {
		g.Sinks = append(g.Sinks, &plan.Sink{UID: fmt.Sprint("s", i), From: stepRef(i), Columns: columns, Whole: -1})
		g.Tasks[0].Sinks = append(g.Tasks[0].Sinks, i)
	}
	g.Tasks[0].Regions = plan.Regions(g, g.Tasks[0].Steps)
	return g
}

// spillRun is how a run holds what its steps make.
type spillRun struct {
	bound pipeline.Bound
	block int
	fault flowFault
	skip  []Poison
	slabs *pipeline.Slabs
}

func (o spillRun) run(g *plan.Graph, entries []pipeline.Entry) (outcome, error) {
	sinks := map[string]*collect{}
	p, err := New(Options{
		Graph: g, Generation: 1, BatchRows: o.block, Deliver: func(pipeline.TaskSnapshot) {}, Bound: o.bound, flow: o.fault, Skip: o.skip, Slabs: o.slabs,
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries[after:], block: o.block}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	})
	if err != nil {
		return nil, err
	}
	err = p.Run(context.Background())
	all := outcome{}
	all.add(sinks)
	for _, s := range p.Ledger().Steps {
		all["ledger"] = append(all["ledger"], fmt.Sprint(s))
	}
	return all, err
}

func wholeRun(t interface{ Fatal(...any) }, g *plan.Graph, entries []pipeline.Entry) outcome {
	all, err := spillRun{bound: pipeline.Bound{Rows: 1 << 30, Bytes: math.MaxInt}, block: len(entries)}.run(g, entries)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestResultsDoNotDependOnTheBound: however early a step hands on what it made, in every stream and every count all is the same.
func TestResultsDoNotDependOnTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		want := wholeRun(t, burstGraph(1, 0), entries)
		o := spillRun{block: rapid.IntRange(1, 120).Draw(t, "block"), slabs: &pipeline.Slabs{}}
		o.bound = pipeline.Bound{Rows: rapid.SampledFrom([]int{1, 2, 3, 7, 20, 100}).Draw(t, "rows"), Bytes: rapid.SampledFrom([]int{1, 70_000, 1 << 20}).Draw(t, "bytes")}
		got, err := o.run(burstGraph(rapid.SampledFrom([]int{1, 1, 3}).Draw(t, "instances"), 0), entries)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}

func TestFaultsOfSpillingAreSeen(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	for name, fault := range map[string]flowFault{"hasty": {hasty: true}, "greedy": {greedy: true}, "undead": {undead: true}} {
		found := false
		for seed := 0; seed < 100 && !found; seed++ {
			entries := gen.Example(seed)
			want := wholeRun(nopFatal{}, burstGraph(1, 0), entries)
			got, err := spillRun{bound: pipeline.Bound{Rows: 1, Bytes: 1}, block: 50, fault: fault}.run(burstGraph(1, 0), entries)
			found = err != nil || cmp.Diff(want, got) != ""
		}
		if !found {
			t.Errorf("%s: not found", name)
		}
	}
}

// tolerated runs as the agent does: at a poison it starts again without it. What has left by then must come again, as it was.
func tolerated(g func() *plan.Graph, entries []pipeline.Entry, o spillRun) (all outcome, skip []Poison, wrong string) {
	var left []outcome
	for range 200 {
		o.skip = skip
		all, err := o.run(g(), entries)
		left = append(left, all)
		var poison *PoisonError
		if errors.As(err, &poison) {
			skip = append(skip, poison.Poison)
			continue
		}
		if err != nil {
			return nil, nil, err.Error()
		}
		for _, before := range left {
			for uid, lines := range before {
				if uid != "ledger" && !slices.Equal(lines, all[uid][:min(len(lines), len(all[uid]))]) {
					return nil, nil, fmt.Sprintf("sink %s: what has left before did not come again", uid)
				}
			}
		}
		return all, skip, ""
	}
	return nil, nil, "it fails for ever"
}

// TestAPoisonedRowTakesBackNothingThatHasLeft: a step panics in the middle of what it makes of one row of a record of many. The rows before it stand,
// whatever the bound and the number of instances; none of what the row made is there.
func TestAPoisonedRowTakesBackNothingThatHasLeft(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	skipped := 0
	for seed := range 60 {
		entries := gen.Example(seed)
		g := func(n int) func() *plan.Graph { return func() *plan.Graph { return burstGraph(n, 13) } }
		want, skip, wrong := tolerated(g(1), entries, spillRun{bound: pipeline.Bound{Rows: 1 << 30, Bytes: math.MaxInt}, block: 120})
		if wrong != "" {
			t.Fatal(wrong)
		}
		skipped += len(skip)
		for _, c := range []struct{ n, rows, block int }{{1, 1, 120}, {1, 3, 120}, {1, 1, 7}, {3, 2, 30}} {
			got, _, wrong := tolerated(g(c.n), entries, spillRun{bound: pipeline.Bound{Rows: c.rows, Bytes: 1 << 20}, block: c.block})
			if wrong == "" {
				wrong = cmp.Diff(want, got)
			}
			if wrong != "" {
				t.Fatalf("%+v, journal %d: %s", c, seed, wrong)
			}
		}
	}
	if skipped < 10 {
		t.Errorf("only %d records were skipped", skipped)
	}
}

func TestAHalfMadeRowIsSeen(t *testing.T) {
	gen := rapid.Custom(func(t *rapid.T) []pipeline.Entry { return journalOf(t) })
	for seed := range 60 {
		entries := gen.Example(seed)
		o := spillRun{bound: pipeline.Bound{Rows: 1, Bytes: 1}, block: 120, fault: flowFault{halfway: true}}
		if _, _, wrong := tolerated(func() *plan.Graph { return burstGraph(1, 13) }, entries, o); wrong != "" {
			return
		}
	}
	t.Fatal("not found")
}

// manyRows makes n rows of each.
type manyRows struct {
	pipeline.Stateless
	n int
}

func (m manyRows) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	for range m.n {
		slots := out.Slots(width)
		copy(slots, r.Slots)
		out.Emit(0, r.Time, slots)
	}
}

// held notes the most rows that the steps of a task hold when results are handed over.
type held struct {
	p     *Pipeline
	most  int
	count int
}

func (h *held) Emit(_ context.Context, rs []pipeline.Result) error {
	n := 0
	for _, u := range h.p.tasks[0].units {
		n += len(u.(*step).out.Ports[0])
	}
	h.most, h.count = max(h.most, n), h.count+len(rs)
	return nil
}
func (h *held) Barrier(context.Context, pipeline.Barrier) error { return nil }

// TestAStepHoldsNoMoreThanItsBound: three steps that make a hundred rows of one hold a bound each, and what one row makes, not a million.
func TestAStepHoldsNoMoreThanItsBound(t *testing.T) {
	g := plainGraph(1)
	g.Steps, g.Tasks[0].Steps = nil, nil
	from := sourceRef(0)
	for i := range 3 {
		g.Steps = append(g.Steps, oneInput(fmt.Sprint("m", i), from, func() pipeline.Operator { return manyRows{n: 100} }))
		g.Tasks[0].Steps = append(g.Tasks[0].Steps, i)
		from = stepRef(i)
	}
	g.Sinks[0].From = from
	h := &held{}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Bound: pipeline.Bound{Rows: 1000, Bytes: 1 << 30},
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{block: 1, entries: []pipeline.Entry{{Pos: 1, Source: "s0", Kind: pipeline.EntryMessage, Payload: []byte(`{"t":1,"v":1}`)}}}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) {
			if uid == DeadSink {
				return &collect{}, nil
			}
			return h, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	h.p = p
	if err := p.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if h.count != 1_000_000 || h.most > 3*1100 {
		t.Errorf("%d results, %d rows held", h.count, h.most)
	}
}

// stateful keeps something for each row and makes many.
type stateful struct {
	manyRows
	table *state.Table
}

func (s *stateful) Open(t pipeline.Tables) (err error) {
	s.table, err = t.Table(state.Spec{Name: "t", Kind: state.Value, Type: "test", Version: 1})
	return err
}

func (s *stateful) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	s.table.Put(key8(int64(r.Pos)), nil)
	s.manyRows.Process(in, r, out)
}

// full is a sink that has room when a checkpoint's encoder has been through the tables.
type full struct {
	p       *Pipeline
	encoded atomic.Bool
	seen    atomic.Bool
	stuck   time.Duration
}

func (f *full) Emit(context.Context, []pipeline.Result) error {
	f.seen.Store(true)
	for deadline := time.Now().Add(f.stuck); !f.encoded.Load(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.New("no room: the checkpoint does not get on")
		}
	}
	return nil
}
func (f *full) Barrier(context.Context, pipeline.Barrier) error { return nil }

// fullRun: a step spills into a sink that waits for an encoder, which needs the table of the step.
func fullRun(t *testing.T, fault flowFault, stuck time.Duration) error {
	t.Helper()
	g := plainGraph(1)
	op := &stateful{manyRows: manyRows{n: 10}}
	g.Steps, g.Tasks[0].Steps = []*plan.Step{oneInput("m", sourceRef(0), func() pipeline.Operator { return op })}, []int{0}
	g.Sinks[0].From = stepRef(0)
	f := &full{stuck: stuck}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Bound: pipeline.Bound{Rows: 5, Bytes: 1 << 20}, flow: fault,
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{block: 1, entries: []pipeline.Entry{{Pos: 1, Source: "s0", Kind: pipeline.EntryMessage, Payload: []byte(`{"t":1,"v":1}`)}}}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) {
			if uid == DeadSink {
				return &collect{}, nil
			}
			return f, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	f.p = p
	encoder := make(chan struct{})
	go func() { // ends when the table's lock is free: at the latest with the run
		defer close(encoder)
		for !f.seen.Load() {
			time.Sleep(time.Millisecond)
		}
		op.table.Lock()
		op.table.Unlock()
		f.encoded.Store(true)
	}()
	err = p.Run(t.Context())
	<-encoder
	return err
}

// TestTablesAreFreeWhileOthersWork: else a full outbox and a checkpoint wait for each other for ever.
func TestTablesAreFreeWhileOthersWork(t *testing.T) {
	if err := fullRun(t, flowFault{}, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := fullRun(t, flowFault{locked: true}, 50*time.Millisecond); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("locked tables are not seen: %v", err)
	}
}

// TestTheReaderCutsByBytes: payloads of many records do not all meet in one batch.
func TestTheReaderCutsByBytes(t *testing.T) {
	large := make([]byte, batchBytes*2/3)
	r := &reader{rowsMax: 10}
	for _, c := range []struct {
		sizes []int
		want  int
	}{{[]int{1, 1, 1}, 3}, {[]int{1, len(large), len(large), 1}, 2}, {[]int{len(large), 1}, 2}, {make([]int, 20), 10}} {
		var entries []pipeline.Entry
		for _, n := range c.sizes {
			entries = append(entries, pipeline.Entry{Payload: large[:n]})
		}
		if got := r.length(entries); got != c.want {
			t.Errorf("%v: %d entries, want %d", c.sizes, got, c.want)
		}
	}
	if n := r.length([]pipeline.Entry{{Payload: make([]byte, 3*batchBytes)}}); n != 1 {
		t.Errorf("a message larger than a batch: %d", n)
	}
}
