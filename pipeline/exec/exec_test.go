package exec

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// The slots of every row in these tests.
const (
	slotTime = iota
	slotValue
	width
)

// windows is a small event-time operator: sums per 10 ms window, late rows refused; with an elapsed timer per
// row besides. It exercises every call that the engine makes.
type windows struct {
	sums, echoes *state.Table
	watermark    int64
	ends         []int64
	due          []int64
	echo         bool
}

func (w *windows) Open(t pipeline.Tables) (err error) {
	w.watermark = pipeline.MinWatermark
	if w.sums, err = t.Table(state.Spec{Name: "sums", Kind: state.Value, Type: "test.sum", Version: 1}); err != nil {
		return err
	}
	w.echoes, err = t.Table(state.Spec{Name: "echoes", Kind: state.Value, Type: "test.echo", Version: 1})
	return err
}

func key8(i int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(i)) }

func (w *windows) Restored() error {
	w.sums.Range(func(k, _, _ []byte) bool { w.ends = append(w.ends, int64(binary.BigEndian.Uint64(k))); return true })
	w.echoes.Range(func(k, _, _ []byte) bool { w.due = append(w.due, int64(binary.BigEndian.Uint64(k))); return true })
	slices.Sort(w.ends)
	slices.Sort(w.due)
	return nil
}

func (w *windows) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	end := r.Time/10*10 + 10
	if end <= w.watermark {
		out.Counters.Late++
		out.Refuse("late", fmt.Sprint(w.watermark), r)
		return
	}
	acc, created, _ := w.sums.Upsert(key8(end), 8)
	if created {
		i, _ := slices.BinarySearch(w.ends, end)
		w.ends = slices.Insert(w.ends, i, end)
	}
	binary.LittleEndian.PutUint64(acc, binary.LittleEndian.Uint64(acc)+r.Slots[slotValue].Num)
	if w.echo {
		due := out.Elapsed() + int64(r.Slots[slotValue].Num%7)*1e6
		if _, ok := w.echoes.Get(key8(due)); !ok {
			w.echoes.Put(key8(due), nil)
			i, _ := slices.BinarySearch(w.due, due)
			w.due = slices.Insert(w.due, i, due)
		}
	}
}

func (w *windows) Watermark(at int64, out *pipeline.Out) {
	w.watermark = at
	for len(w.ends) > 0 && w.ends[0] <= at {
		end := w.ends[0]
		v, _ := w.sums.Get(key8(end))
		out.SetDeadline(end)
		slots := out.Slots(width)
		slots[slotTime], slots[slotValue] = pipeline.IntValue(end), pipeline.UintValue(binary.LittleEndian.Uint64(v))
		out.Emit(0, end-1, slots)
		w.sums.Delete(key8(end))
		w.ends = w.ends[1:]
	}
}

func (w *windows) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	for len(w.due) > 0 && w.due[0] <= now.Elapsed {
		out.SetDeadline(w.due[0])
		slots := out.Slots(width)
		slots[slotTime], slots[slotValue] = pipeline.IntValue(-1), pipeline.IntValue(w.due[0])
		out.Emit(0, w.watermark+5, slots)
		w.echoes.Delete(key8(w.due[0]))
		w.due = w.due[1:]
	}
}

func (w *windows) Timers() (int64, int64) {
	e, v := int64(pipeline.NoDeadline), int64(pipeline.NoDeadline)
	if len(w.due) > 0 {
		e = w.due[0]
	}
	if len(w.ends) > 0 {
		v = w.ends[0]
	}
	return e, v
}

// pass forwards every row whose value is not a multiple of n.
type pass struct {
	pipeline.Stateless
	n uint64
}

func (p pass) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if r.Slots[slotValue].Num%p.n != 0 {
		out.Forward(0, r)
	}
}

// testDecoder reads "time value" as two JSON fields.
func testDecoder() codec.Decoder {
	return codec.NewJSON([]codec.Field{
		{Path: pipeline.Path{{Name: "t"}}, Slot: slotTime, Kind: pipeline.Int},
		{Path: pipeline.Path{{Name: "v"}}, Slot: slotValue, Kind: pipeline.Int},
	}, -1, codec.Limits{})
}

func testSource(name string) *plan.Source {
	return &plan.Source{
		Name: name, Width: width, TimeSlot: -1, Decoders: []plan.TopicDecoder{{New: testDecoder}},
		Time: &plan.Time{Slot: slotTime, Unit: codec.Milliseconds, OutOfOrdernessMs: 5, MinMs: 0, MaxMs: 1 << 40},
		Idle: &plan.Idle{AfterNs: 20e6, Advance: true},
	}
}

func oneInput(uid string, from plan.Ref, op func() pipeline.Operator) *plan.Step {
	return &plan.Step{UID: uid, Inputs: []plan.Ref{from}, Ports: 1, Width: width, New: op}
}

func sourceRef(i int) plan.Ref { return plan.Ref{Source: i, Step: -1} }
func stepRef(i int) plan.Ref   { return plan.Ref{Source: -1, Step: i} }

// diamond: a → filter → first windows ┐
//
//	b → filter ─────────────────────┴→ second windows (union) → sink; the first windows have a sink of their own.
func diamond(tasks ...plan.Task) *plan.Graph {
	columns := []codec.Column{{Name: "t", Slot: slotTime}, {Name: "v", Slot: slotValue}}
	return &plan.Graph{
		Sources: []*plan.Source{testSource("a"), testSource("b")},
		Steps: []*plan.Step{
			oneInput("fa", sourceRef(0), func() pipeline.Operator { return pass{n: 3} }),
			oneInput("fb", sourceRef(1), func() pipeline.Operator { return pass{n: 5} }),
			oneInput("wa", stepRef(0), func() pipeline.Operator { return &windows{echo: true} }),
			{UID: "u", Inputs: []plan.Ref{stepRef(0), stepRef(1), stepRef(2)}, Ports: 1, Width: width, New: func() pipeline.Operator { return &windows{echo: true} }},
			{UID: "u2", Inputs: []plan.Ref{stepRef(2), stepRef(3)}, Ports: 1, Width: width, New: func() pipeline.Operator { return pass{n: 1 << 60} }},
		},
		Sinks: []*plan.Sink{{UID: "s1", From: stepRef(2), Columns: columns, Whole: -1}, {UID: "s2", From: stepRef(4), Columns: columns, Whole: -1}},
		Tasks: tasks,
	}
}

func oneTask() *plan.Graph {
	return diamond(plan.Task{Name: "all", Sources: []int{0, 1}, Steps: []int{0, 1, 2, 3, 4}, Sinks: []int{0, 1}})
}

func threeTasks() *plan.Graph {
	return diamond(
		plan.Task{Name: "a", Sources: []int{0}, Steps: []int{0, 2}, Sinks: []int{0}},
		plan.Task{Name: "b", Sources: []int{1}, Steps: []int{1}},
		plan.Task{Name: "rest", Steps: []int{3, 4}, Sinks: []int{1}},
	)
}

// memory is a finite journal in memory, cut into blocks at random.
type memory struct {
	entries []pipeline.Entry
	block   int
}

func (m *memory) Next(context.Context) (*pipeline.Block, error) {
	if len(m.entries) == 0 {
		return nil, io.EOF
	}
	n := min(m.block, len(m.entries))
	b := &pipeline.Block{Entries: m.entries[:n], First: m.entries[0].Pos, Last: m.entries[n-1].Pos}
	m.entries = m.entries[n:]
	return b, nil
}
func (m *memory) Close() error { return nil }

// collect is a sink's far end.
type collect struct{ lines []string }

func (c *collect) Emit(_ context.Context, rs []pipeline.Result) error {
	for _, r := range rs {
		c.lines = append(c.lines, fmt.Sprintf("%d %x %d %s", r.Seq, r.Chain, r.Pos, r.Payload))
	}
	return nil
}
func (c *collect) Barrier(context.Context, pipeline.Barrier) error { return nil }

type outcome map[string][]string

func (o outcome) add(sinks map[string]*collect) {
	for uid, c := range sinks {
		o[uid] = append(o[uid], c.lines...)
	}
}

// journalOf draws entries: values, times that wander, stamps that stand or jump, foreign and bad records.
func journalOf(t *rapid.T) []pipeline.Entry {
	n := rapid.IntRange(1, 120).Draw(t, "entries")
	var all []pipeline.Entry
	var stamp pipeline.Stamp
	base := int64(100)
	for i := range n {
		stamp.Elapsed += int64(rapid.SampledFrom([]int{0, 0, 0, 1, 3, 25}).Draw(t, "gap")) * 1e6
		base += int64(rapid.SampledFrom([]int{0, 1, 2, 30}).Draw(t, "ahead"))
		e := pipeline.Entry{Pos: pipeline.Position(i + 1), Stamp: stamp, Kind: pipeline.EntryMessage, Source: rapid.SampledFrom([]string{"a", "a", "b", "c"}).Draw(t, "source")}
		switch rapid.IntRange(0, 12).Draw(t, "kind") {
		case 0:
			e.Kind = pipeline.EntryTick
		case 1:
			e.Payload = []byte("{broken")
		default:
			at := base - int64(rapid.IntRange(0, 12).Draw(t, "behind"))
			e.Payload = fmt.Appendf(nil, `{"t":%d,"v":%d}`, at, rapid.IntRange(0, 40).Draw(t, "value"))
		}
		all = append(all, e)
	}
	return all
}

// run replays entries behind `from`, whole, in blocks of the given size.
func run(t interface{ Fatal(...any) }, g *plan.Graph, entries []pipeline.Entry, block, rows int, restore pipeline.StateSource) outcome {
	sinks := map[string]*collect{}
	p, err := New(Options{
		Graph: g, Generation: 1, BatchRows: rows, Restore: restore, Deliver: func(pipeline.TaskSnapshot) {},
		Read: func(after pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{entries: entries[after:], block: block}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	o := outcome{}
	o.add(sinks)
	return o
}

func TestRule30_ResultsDoNotDependOnBatchesOrTasks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := journalOf(t)
		want := run(t, oneTask(), entries, len(entries), 1000, nil)
		got := run(t, threeTasks(), entries, rapid.IntRange(1, 20).Draw(t, "block"), rapid.IntRange(1, 20).Draw(t, "rows"), nil)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatal(d)
		}
	})
}
