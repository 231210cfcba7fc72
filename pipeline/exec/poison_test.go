package exec

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/codec"
	"github.com/weirstream/weir/pipeline/plan"
)

// allergic passes rows on and panics at one value; with timeless it takes the engine's short cut.
type allergic struct {
	pipeline.Stateless
	value int64
}

func (a allergic) Process(_ int, r *pipeline.Row, out *pipeline.Out) {
	if r.Slots[slotValue].Int() == a.value {
		panic("cannot stand it")
	}
	out.Forward(0, r)
}

// allergicWindows is the same among timers and state.
type allergicWindows struct {
	windows
	value int64
}

func (a *allergicWindows) Process(in int, r *pipeline.Row, out *pipeline.Out) {
	if r.Slots[slotValue].Int() == a.value {
		panic("cannot stand it")
	}
	a.windows.Process(in, r, out)
}

func runPoisoned(t *testing.T, op func() pipeline.Operator, block int, skip []Poison) (map[string]*collect, error) {
	t.Helper()
	g := plainGraph(1)
	g.Steps = []*plan.Step{oneInput("bad", sourceRef(0), op)}
	g.Tasks[0].Steps = []int{0}
	g.Sinks[0].From = stepRef(0)
	var entries []pipeline.Entry
	for i := range 20 {
		entries = append(entries, pipeline.Entry{
			Pos: pipeline.Position(i + 1), Source: "s0", Kind: pipeline.EntryMessage, Stamp: pipeline.Stamp{Elapsed: int64(i)},
			Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i, i),
		})
	}
	sinks := map[string]*collect{}
	p, err := New(Options{
		Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Skip: skip,
		Read: func(pipeline.Position) (pipeline.BlockReader, error) {
			return &memory{block: block, entries: entries}, nil
		},
		Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	return sinks, p.Run(t.Context())
}

// TestPoison: a panic at a row names its record; told to skip it, the step refuses that record alone, and all else is as ever.
func TestPoison(t *testing.T) {
	for name, op := range map[string]func(value int64) func() pipeline.Operator{
		"timeless": func(v int64) func() pipeline.Operator { return func() pipeline.Operator { return allergic{value: v} } },
		"timers": func(v int64) func() pipeline.Operator {
			return func() pipeline.Operator { return &allergicWindows{value: v} }
		},
	} {
		for _, block := range []int{1, 7, 64} {
			_, err := runPoisoned(t, op(12), block, nil)
			var poison *PoisonError
			if !errors.As(err, &poison) || poison.Poison != (Poison{Step: "bad", Position: 13}) || !strings.Contains(err.Error(), "cannot stand it") {
				t.Fatalf("%s: got %v", name, err)
			}
			skipped, err := runPoisoned(t, op(12), block, []Poison{poison.Poison, {Step: "another", Position: 3}})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if dead := skipped[DeadSink].lines; len(dead) != 1 || !strings.Contains(dead[0], `"poison"`) || strings.Contains(dead[0], "cannot stand it") {
				t.Errorf("%s: dead letters %v", name, dead)
			}
			all, err := runPoisoned(t, op(-1), block, nil)
			if err != nil {
				t.Fatal(err)
			}
			if name == "timeless" {
				want := payloads(all["k0"].lines)
				if diff := cmp.Diff(slices.Delete(want, 12, 13), payloads(skipped["k0"].lines)); diff != "" {
					t.Errorf("block %d: -want +got:\n%s", block, diff)
				}
			}
		}
	}
}

// allergicDecoder panics at one message.
type allergicDecoder struct {
	codec.Decoder
	part string
}

func (a allergicDecoder) Decode(payload []byte, slots []pipeline.Value) error {
	if a.part != "" && strings.Contains(string(payload), a.part) {
		panic("cannot read it")
	}
	return a.Decoder.Decode(payload, slots)
}

// TestPoisonOfADecoder: the same for a decoder, in one lane and in several.
func TestPoisonOfADecoder(t *testing.T) {
	const messages = 200
	var entries []pipeline.Entry
	for i := range messages {
		entries = append(entries, pipeline.Entry{Pos: pipeline.Position(i + 1), Source: "s0", Kind: pipeline.EntryMessage, Payload: fmt.Appendf(nil, `{"t":%d,"v":%d}`, i, 1000+i)})
	}
	replay := func(instances, block int, part string, skip []Poison) (map[string]*collect, error) {
		g := plainGraph(1)
		g.Parallelism = instances
		g.Sources[0].Decoders = []plan.TopicDecoder{{New: func() codec.Decoder { return allergicDecoder{testDecoder(), part} }}}
		sinks := map[string]*collect{}
		p, err := New(Options{
			Graph: g, Generation: 1, Deliver: func(pipeline.TaskSnapshot) {}, Skip: skip,
			Read: func(pipeline.Position) (pipeline.BlockReader, error) {
				return &memory{block: block, entries: entries}, nil
			},
			Sink: func(uid string) (pipeline.ResultSink, error) { sinks[uid] = &collect{}; return sinks[uid], nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		return sinks, p.Run(t.Context())
	}
	all, err := replay(1, messages, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ instances, block int }{{1, 7}, {1, messages}, {3, messages}} {
		_, err := replay(c.instances, c.block, `"v":1012}`, nil)
		var poison *PoisonError
		if !errors.As(err, &poison) || poison.Poison != (Poison{Step: "$source/s0", Position: 13}) || !strings.Contains(err.Error(), "cannot read it") {
			t.Fatalf("%+v: got %v", c, err)
		}
		skipped, err := replay(c.instances, c.block, `"v":1012}`, []Poison{poison.Poison})
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if dead := skipped[DeadSink].lines; len(dead) != 1 || !strings.Contains(dead[0], `"poison"`) || !strings.Contains(dead[0], `1012`) || strings.Contains(dead[0], "cannot read it") {
			t.Errorf("%+v: dead letters %v", c, dead)
		}
		if diff := cmp.Diff(slices.Delete(payloads(all["k0"].lines), 12, 13), payloads(skipped["k0"].lines)); diff != "" {
			t.Errorf("%+v: -want +got:\n%s", c, diff)
		}
	}
}

// payloads drops number, chain and position.
func payloads(lines []string) (rest []string) {
	for _, l := range lines {
		rest = append(rest, l[strings.IndexByte(l, '{'):])
	}
	return rest
}

// TestAPanicInATimerHasNoRecord: there is nothing to go on without.
func TestAPanicInATimerHasNoRecord(t *testing.T) {
	_, err := runPoisoned(t, func() pipeline.Operator { return &explosive{} }, 7, nil)
	var poison *PoisonError
	if err == nil || errors.As(err, &poison) || !strings.Contains(err.Error(), "step bad") {
		t.Errorf("got %v", err)
	}
}

type explosive struct{ windows }

func (*explosive) Watermark(int64, *pipeline.Out) { panic(fmt.Sprint("timer")) }
