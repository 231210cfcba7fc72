package join_test

import (
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/join"
	"github.com/weirstream/weir/pipeline/state"
)

// FuzzRestored: whatever lies in a join's table, Restored says that it is not readable or the join works with it.
func FuzzRestored(f *testing.F) {
	kinds := []func() pipeline.Operator{
		func() pipeline.Operator {
			return join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false)})
		},
		func() pipeline.Operator {
			return join.NewInterval(join.IntervalConfig{Sides: sides(), Output: output(false), TTL: 1})
		},
		func() pipeline.Operator {
			return join.NewWindowed(join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{SizeMs: 10, SlideMs: 5}})
		},
		func() pipeline.Operator {
			return join.NewWindowed(join.WindowedConfig{Sides: sides(), Output: output(true), Windows: join.Windows{GapMs: 10}})
		},
		func() pipeline.Operator {
			return join.NewLatest(join.LatestConfig{Sides: sides(), Output: output(false)})
		},
	}
	a, _ := pipeline.AppendKey(nil, pipeline.StringValue("a"))
	for i := range kinds {
		for table := range 2 {
			f.Add(i, table, a, make([]byte, 21), []byte{0, 2, 0, 0})
			f.Add(i, table, a, make([]byte, 8), make([]byte, 8))
			f.Add(i, table, a, []byte{}, []byte{2, 0, 0})
		}
	}
	f.Fuzz(func(t *testing.T, kind, table int, key, sub, val []byte) {
		if kind < 0 || kind >= len(kinds) {
			return
		}
		op, have := kinds[kind](), &tables{}
		if err := op.Open(have); err != nil {
			t.Fatal(err)
		}
		if table < 0 || table >= len(have.list) {
			return
		}
		to := have.list[table]
		if to.Spec().Kind != state.Map {
			sub = nil
		}
		if to.Load(key, sub, val) != nil || op.Restored() != nil {
			return
		}
		for rest := key; len(rest) > 0; {
			var err error
			if _, rest, err = pipeline.NewOut("", 1).KeyValue(rest); err != nil {
				return // the bytes of a row's key are not the join's to check
			}
		}
		out := pipeline.NewOut("", 2)
		for input := range 2 {
			out.At = pipeline.At{Pos: pipeline.Position(1<<40 + uint64(input)), Phase: pipeline.During}
			op.Process(input, &pipeline.Row{At: out.At, Time: 5, Slots: []pipeline.Value{pipeline.StringValue("a"), pipeline.IntValue(1), pipeline.IntValue(7), pipeline.StringValue("t")}}, out)
		}
		out.At.Phase = pipeline.After
		op.Watermark(1<<40, out)
	})
}
