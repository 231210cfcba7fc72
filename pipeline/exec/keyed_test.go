package exec

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
	"github.com/weirstream/weir/pipeline/state"
)

// keyedWindows sums per key and 10 ms window, refuses late rows, forwards what it takes, echoes some rows when elapsed time has passed, and
// takes maxKeys windows at most. It makes every call that a keyed step can make.
type keyedWindows struct {
	slot      int
	maxKeys   int
	ttl       int64
	nameless  bool // planted: its timers do not say whose they are
	sums      *state.Table
	echoes    *state.Table
	watermark int64
	ends, due []keyedTimer
	key       []byte
}

type keyedTimer struct {
	at  int64
	key string
}

func compareTimers(a, b keyedTimer) int {
	return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.key, b.key))
}

func addTimer(list []keyedTimer, t keyedTimer) []keyedTimer {
	i, found := slices.BinarySearchFunc(list, t, compareTimers)
	if found {
		return list
	}
	return slices.Insert(list, i, t)
}

func (w *keyedWindows) Open(t pipeline.Tables) (err error) {
	w.watermark = pipeline.MinWatermark
	if w.sums, err = t.Table(state.Spec{Name: "sums", Kind: state.Value, Type: "test.sum", Version: 1, MaxKeys: w.maxKeys, TTL: w.ttl}); err != nil {
		return err
	}
	w.echoes, err = t.Table(state.Spec{Name: "echoes", Kind: state.Value, Type: "test.echo", Version: 1})
	return err
}

func (w *keyedWindows) Restored() error {
	load := func(into *[]keyedTimer) func(k, _, _ []byte) bool {
		return func(k, _, _ []byte) bool {
			*into = addTimer(*into, keyedTimer{int64(binary.BigEndian.Uint64(k)), string(k[8:])})
			return true
		}
	}
	w.sums.Range(load(&w.ends))
	w.echoes.Range(load(&w.due))
	return nil
}

// entry is the key in the tables.
func (w *keyedWindows) entry(at int64, key []byte) []byte { return append(key8(at), key...) }

func (w *keyedWindows) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	w.key, _ = pipeline.AppendKey(w.key[:0], r.Slots[w.slot])
	if w.ttl > 0 {
		w.sums.SetNow(out.Elapsed())
	}
	end := r.Time/10*10 + 10
	if end <= w.watermark {
		out.Counters.Late++
		out.Refuse("late", fmt.Sprint(w.watermark), r)
		return
	}
	acc, created, err := w.sums.Upsert(w.entry(end, w.key), 8)
	if err != nil {
		out.Refuse("max_keys", err.Error(), r)
		return
	}
	if created {
		w.ends = addTimer(w.ends, keyedTimer{end, string(w.key)})
	}
	binary.LittleEndian.PutUint64(acc, binary.LittleEndian.Uint64(acc)+r.Slots[slotValue].Num+uint64(in))
	if v := r.Slots[slotValue].Num; v%3 == 0 {
		due := out.Elapsed() + int64(v%7)*1e6
		if err := w.echoes.Put(w.entry(due, w.key), nil); err == nil {
			w.due = addTimer(w.due, keyedTimer{due, string(w.key)})
		}
	}
	out.Forward(0, r)
}

func (w *keyedWindows) emit(t keyedTimer, time int64, v uint64, out *pipeline.Out) {
	if w.nameless {
		out.SetDeadline(t.at)
	} else {
		out.SetTimer(t.at, 0, []byte(t.key))
	}
	key, _, err := out.KeyValue([]byte(t.key))
	if err != nil {
		panic(err)
	}
	slots := out.Slots(width)
	slots[slotTime], slots[slotValue] = pipeline.UintValue(v), pipeline.UintValue(v)
	slots[w.slot] = key
	out.Emit(0, time, slots)
}

func (w *keyedWindows) Watermark(at int64, out *pipeline.Out) {
	w.watermark = at
	for ; len(w.ends) > 0 && w.ends[0].at <= at; w.ends = w.ends[1:] {
		t := w.ends[0]
		k := w.entry(t.at, []byte(t.key))
		v, ok := w.sums.Get(k)
		if !ok {
			continue
		}
		w.emit(t, t.at-1, binary.LittleEndian.Uint64(v), out)
		w.sums.Delete(k)
	}
}

func (w *keyedWindows) Elapsed(now pipeline.Stamp, out *pipeline.Out) {
	for ; len(w.due) > 0 && w.due[0].at <= now.Elapsed; w.due = w.due[1:] {
		t := w.due[0]
		w.emit(t, w.watermark+5, uint64(t.at/1e6), out)
		w.echoes.Delete(w.entry(t.at, []byte(t.key)))
	}
}

func (w *keyedWindows) Timers() (int64, int64) {
	e, v := int64(pipeline.NoDeadline), int64(pipeline.NoDeadline)
	if len(w.due) > 0 {
		e = w.due[0].at
	}
	if len(w.ends) > 0 {
		v = w.ends[0].at
	}
	return e, v
}

func behindEight(_ string, key []byte) []byte { return key[8:] }

func keyedStep(uid string, slot int, make func() *keyedWindows, inputs ...plan.Ref) *plan.Step {
	k := &plan.Keyed{Out: [][]int{{slot}}, StateKey: behindEight}
	for range inputs {
		k.In = append(k.In, []int{slot})
	}
	return &plan.Step{UID: uid, Inputs: inputs, Ports: 1, Width: width, Keyed: k, New: func() pipeline.Operator {
		w := make()
		w.slot = slot
		return w
	}}
}

func statelessStep(uid string, from plan.Ref, n uint64) *plan.Step {
	s := oneInput(uid, from, func() pipeline.Operator { return pass{n: n} })
	s.Stateless, s.Narrow, s.Carries = true, true, [][]int{{slotTime, slotValue}}
	return s
}

// keyedGraph has all that regions do: a stateless step in front, a chain of two keyed steps and stateless ones, one input read by two steps,
// another key behind the first, two inputs into a keyed step, and steps that run in one instance around them.
func keyedGraph(n int, make func() *keyedWindows, tasks ...plan.Task) *plan.Graph {
	columns := []codec.Column{{Name: "t", Slot: slotTime}, {Name: "v", Slot: slotValue}}
	g := &plan.Graph{
		Parallelism: n,
		Sources:     []*plan.Source{testSource("a"), testSource("b")},
		Steps: []*plan.Step{
			statelessStep("fa", sourceRef(0), 11), // 0
			statelessStep("fb", sourceRef(1), 5),
			keyedStep("k1", slotValue, make, stepRef(0)), // 2
			statelessStep("f1", stepRef(2), 7),
			keyedStep("k2", slotValue, make, stepRef(3)),             // 4: with k1
			keyedStep("k3", slotTime, make, stepRef(4)),              // 5: another key
			keyedStep("k4", slotValue, make, stepRef(0)),             // 6: beside k1
			keyedStep("k5", slotValue, make, stepRef(1), stepRef(4)), // 7: two inputs
			{UID: "u", Inputs: []plan.Ref{stepRef(6), stepRef(7)}, Ports: 1, Width: width, New: func() pipeline.Operator { return pass{n: 1 << 60} }},
			oneInput("w", stepRef(8), func() pipeline.Operator { return &windows{echo: true} }),
		},
		Tasks: tasks,
	}
	for i, from := range []int{2, 4, 5, 7, 8, 9} {
		g.Sinks = append(g.Sinks, &plan.Sink{UID: fmt.Sprint("s", i), From: stepRef(from), Columns: columns, Whole: -1})
	}
	if len(tasks) == 0 {
		g.Tasks = []plan.Task{{Name: "all", Sources: []int{0, 1}, Steps: []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, Sinks: []int{0, 1, 2, 3, 4, 5}}}
	}
	for i := range g.Tasks {
		g.Tasks[i].Regions = plan.Regions(g, g.Tasks[i].Steps)
	}
	return g
}

func keyedTasks() []plan.Task {
	return []plan.Task{
		{Name: "a", Sources: []int{0}, Steps: []int{0, 2, 3, 4}, Sinks: []int{0, 1}},
		{Name: "b", Sources: []int{1}, Steps: []int{1}},
		{Name: "rest", Steps: []int{5, 6, 7, 8, 9}, Sinks: []int{2, 3, 4, 5}},
	}
}
