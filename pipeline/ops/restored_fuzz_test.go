package ops_test

import (
	"math"
	"testing"

	"github.com/weirstream/weir/pipeline"
	"github.com/weirstream/weir/pipeline/expr"
	"github.com/weirstream/weir/pipeline/ops"
	"github.com/weirstream/weir/pipeline/optest"
)

// FuzzRestored: whatever lies in an operator's table, Restored says that it is not readable or the operator works with it.
func FuzzRestored(f *testing.F) {
	kinds := []func() pipeline.Operator{
		steady["deadband"], steady["alarm"], steady["changed"], steady["delta"], steady["lag"], steady["counter"], steady["throttle"],
		steady["sample"], steady["absence"],
		func() pipeline.Operator { return ops.NewZScore(zscoreConfig(3, 1)) },
		func() pipeline.Operator {
			return ops.NewDedup(ops.DedupConfig{Key: []*expr.Program{optest.Expr("key")}, TTL: 10})
		},
		func() pipeline.Operator { return ops.NewSort(ops.SortConfig{}) },
	}
	a, _ := pipeline.AppendKey(nil, pipeline.StringValue("a"))
	for i := range kinds {
		for _, n := range []int{0, 1, 8, 9, 16, 17, 32} {
			f.Add(i, a, make([]byte, n))
			f.Add(i, make([]byte, 20), make([]byte, n))
		}
	}
	f.Fuzz(func(t *testing.T, kind int, key, val []byte) {
		if kind < 0 || kind >= len(kinds) {
			return
		}
		op, have := kinds[kind](), &tables{}
		if err := op.Open(have); err != nil {
			t.Fatal(err)
		}
		if have.held == nil || have.held.Load(key, nil, val) != nil {
			return
		}
		if op.Restored() != nil {
			return
		}
		if rest := key; kind != len(kinds)-1 { // a sort's key is a place in time, which it checks itself
			for len(rest) > 0 {
				var err error
				if _, rest, err = pipeline.NewOut("", 1).KeyValue(rest); err != nil {
					return // the bytes of a row's key are not the operator's to check
				}
			}
		}
		out := pipeline.NewOut("", 2)
		row := rec(5, "a", 2)
		out.At = pipeline.At{Pos: 1 << 40, Phase: pipeline.During}
		op.Process(0, &pipeline.Row{At: out.At, Time: row.Time, Slots: row.Slots}, out)
		out.At.Phase = pipeline.After
		op.Watermark(math.MaxInt64/2, out)
		op.Elapsed(pipeline.Stamp{Elapsed: math.MaxInt64 / 2}, out)
	})
}
